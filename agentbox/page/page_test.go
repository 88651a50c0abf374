package page_test

import (
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentbox/agentbox/page"
)

// The policy of the page is strict, and the page keeps to it: no script or style of its own text,
// nothing from elsewhere, and no text of a box as markup.
func TestPage(t *testing.T) {
	files, err := filepath.Glob("assets/*")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "/") {
		name := strings.Replace(strings.TrimPrefix(file, "assets"), "/index.html", "/", 1)
		w := httptest.NewRecorder()
		page.Handler().ServeHTTP(w, httptest.NewRequest("GET", name, nil))
		policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
		if w.Code != 200 || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %s", name, w.Code, policy)
		}
		for _, bad := range []string{`innerHTML`, `setHTML`, `DOMParser`, `srcdoc`, `outerHTML`, `insertAdjacentHTML`, `document\.write`, `eval\(`, `<script>`, `<style`, ` style=`, ` on[a-z]+=`, `https?://[a-vx-z]`} {
			if found := regexp.MustCompile(bad).FindString(body); found != "" {
				t.Errorf("%s has %q", name, found)
			}
		}
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/../page.go", nil))
	if w.Code == 200 {
		t.Error("the page has more than its files")
	}
}
