package token_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/token"
)

func newStore(t *testing.T) *token.Store {
	return &token.Store{Path: filepath.Join(t.TempDir(), "tokens.json")}
}

// A token is known by its text alone, of which the file has nothing.
func TestTokens(t *testing.T) {
	s := newStore(t)
	made, err := s.Create(api.Token{Name: "ci", Scope: api.ScopeRun, Project: "https://example.com/app"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Check(made.Text); err != nil || got != made.Token {
		t.Errorf("check: %+v, %v", got, err)
	}
	b, err := os.ReadFile(s.Path)
	_, secret, _ := strings.Cut(strings.TrimPrefix(made.Text, "agentbox_"), "_")
	if err != nil || strings.Contains(string(b), secret) {
		t.Errorf("the file has the secret: %s, %v", b, err)
	}
	if info, _ := os.Stat(s.Path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	for _, text := range []string{"", "agentbox_", "agentbox_" + made.ID, "agentbox_" + made.ID + "_", made.Text + "x", made.Text[:len(made.Text)-1], strings.ToUpper(made.Text)} {
		if _, err := s.Check(text); agentbox.CodeOf(err) != agentbox.Unauthorized {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := s.Create(api.Token{Name: "ci", Scope: api.ScopeRead}, 0); agentbox.CodeOf(err) != agentbox.Exists {
		t.Errorf("a second name: %v", err)
	}
	if _, err := s.Create(api.Token{Scope: "root"}, 0); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("an unknown scope: %v", err)
	}
	if _, err := s.Remove(""); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("no name: %v", err)
	}
	if was, err := s.Remove("ci"); err != nil || was.ID != made.ID {
		t.Errorf("remove: %+v, %v", was, err)
	}
	if _, err := s.Check(made.Text); agentbox.CodeOf(err) != agentbox.Unauthorized {
		t.Errorf("a removed token: %v", err)
	}
}

func TestTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		made, err := s.Create(api.Token{Scope: api.ScopeRead}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 2*time.Second)
		if _, err := s.Check(made.Text); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := s.Check(made.Text); agentbox.CodeOf(err) != agentbox.Unauthorized {
			t.Errorf("after its time: %v", err)
		}
	})
}
