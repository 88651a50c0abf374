package daemon

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox/project"
)

// What changes while a request runs changes nothing of it, and the next request sees it.
func TestRequestHasOneProject(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	var seen []string
	handler := eachRemembering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"one", "two"} {
			text := "[remote \"origin\"]\n\turl = https://example.com/" + name + "\n"
			if err := os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(text), 0o644); err != nil {
				t.Error(err)
			}
			p, err := project.Identify(r.Context(), dir)
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, p.Name)
		}
	}))
	for range 2 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	}
	if len(seen) != 4 || seen[0] != seen[1] || seen[2] != seen[3] || seen[0] != "example.com/one" {
		t.Errorf("%q", seen)
	}
}
