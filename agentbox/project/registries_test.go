package project

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/policy/registries"
)

// What this machine's tools and files do not say, a clean box is asked once.
func TestWhatNobodySaysIsAskedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registries.json")
	r := NewRegistries(path)
	here := []string{"go"}
	r.has = func(tool string) bool { return slices.Contains(here, tool) }
	unanswered := func(found ...registries.Found) string {
		var keys []string
		for _, q := range r.Unanswered([]string{"go", "npm", "pip"}, found) {
			keys = append(keys, q.Key())
		}
		return strings.Join(keys, "; ")
	}
	if got, want := unanswered(), "npm config get registry; pip config list; pip install --help"; got != want {
		t.Errorf("nobody says %q, want %q", got, want)
	}
	if got, want := unanswered(registries.Found{Rule: rule(t, "npm.example"), From: "npm: /home/ada/.npmrc"}), "pip config list; pip install --help"; got != want {
		t.Errorf("with a file of npm's nobody says %q, want %q", got, want)
	}
	if err := r.Record(map[string]string{"npm config get registry": "https://npm.example/", "pip install --help": strings.Repeat("x", 1<<20)}); err != nil {
		t.Fatal(err)
	}
	r = NewRegistries(path) // the next daemon
	r.has = func(string) bool { return false }
	if got, want := unanswered(), "go env GOPROXY GOSUMDB; pip config list"; got != want {
		t.Errorf("then nobody says %q, want %q", got, want)
	}
	if n := len(r.said()["pip install --help"]); n != maxSaid {
		t.Errorf("%d bytes of an answer were kept", n)
	}
}
