package project

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/policy/registries"
)

// What this machine's tools and files do not say, a clean box is asked once.
func TestQuestionsAreAskedOnce(t *testing.T) {
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
	if n := len(r.readBoxAnswers()["pip install --help"]); n != maxSaid {
		t.Errorf("%d bytes of an answer were kept", n)
	}
}

// Answers that come while the tools are asked count from the next look on, and none of several that
// come at once is lost.
func TestBoxAnswersAreKept(t *testing.T) {
	r := NewRegistries(filepath.Join(t.TempDir(), "registries.json"))
	var said []int // how many answers each look knew of
	during := func() {}
	r.look = func(_ context.Context, m registries.Machine) ([]registries.Found, bool) {
		said = append(said, len(m.Answers))
		during()
		return nil, true
	}
	var refresh func(context.Context) (bool, error)
	known := func() {
		t.Helper()
		if _, err := r.Known(t.Context(), nil, func(f func(context.Context) (bool, error)) { refresh = f }); err != nil {
			t.Fatal(err)
		}
	}
	known()
	r.looked = time.Time{}
	known()
	during = func() {
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := r.Record(map[string]string{fmt.Sprint("question ", i): "answer"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if _, err := refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	during = func() {}
	known()
	if !slices.Equal(said, []int{0, 0, 50}) {
		t.Errorf("the looks knew of %v answers", said)
	}
}
