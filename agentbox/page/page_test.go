package page_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"agentbox/agentbox/page"
)

// The policy of the page is strict, and the page keeps to it: no script or style of its own text,
// nothing from elsewhere, and no text of a box as markup.
func TestPage(t *testing.T) {
	for _, name := range []string{"/", "/app.js", "/api.js", "/style.css", "/icon.svg"} {
		w := httptest.NewRecorder()
		page.Handler().ServeHTTP(w, httptest.NewRequest("GET", name, nil))
		policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
		if w.Code != 200 || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %s", name, w.Code, policy)
		}
		for _, bad := range []string{`innerHTML`, `outerHTML`, `insertAdjacentHTML`, `document\.write`, `eval\(`, `<script>`, `<style`, ` style=`, ` on[a-z]+=`, `https?://[^w]`} {
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
