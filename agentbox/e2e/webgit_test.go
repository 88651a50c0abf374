package e2e

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// gitSite serves a repository with one commit: at /public/app.git to everybody, and at /git/app.git
// to user x with value as the password, who may also push. It returns nil where git cannot serve.
func gitSite(ts *testscript.TestScript, value string) http.Handler {
	out, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, statErr := os.Stat(backend); err != nil || statErr != nil {
		return nil
	}
	root := ts.MkAbs("served")
	work := ts.MkAbs("served-from")
	for _, argv := range [][]string{
		{"init", "-q", work},
		{"-C", work, "commit", "-q", "--allow-empty", "-m", "the only one"},
		{"clone", "-q", "--bare", work, filepath.Join(root, "app.git")},
	} {
		cmd := exec.Command("git", argv...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+shared.config, "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %v: %v\n%s", argv, err, out)
		}
	}
	serve := func(prefix string, env ...string) http.Handler {
		return &cgi.Handler{
			Path: backend, Root: prefix,
			Env: append(env, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL="+shared.config, "GIT_CONFIG_NOSYSTEM=1"),
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/public/", serve("/public"))
	private := serve("/git", "REMOTE_USER=x")
	mux.HandleFunc("/git/", func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "x" || password != value {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		private.ServeHTTP(w, r)
	})
	return mux
}
