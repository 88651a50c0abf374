package cli

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func TestEveryLossIsNamed(t *testing.T) {
	clean, a, b := removal{name: "clean"}, removal{name: "a", loss: "box a has work"}, removal{name: "b", loss: "box b has work"}
	for _, c := range []struct {
		boxes         []removal
		message, hint string
	}{
		{[]removal{a}, "box a has work",
			"agentbox pull a gets it as branches; agentbox rm --force a removes it anyway"},
		{[]removal{clean, a}, "box a has work",
			"agentbox pull a gets it as branches; agentbox rm --force clean a removes them anyway"},
		{[]removal{a, clean, b}, "box a has work; box b has work",
			"agentbox pull BOX gets it as branches; agentbox rm --force a clean b removes them anyway"},
	} {
		if e := agentbox.AsError(unsavedError(c.boxes)); e.Message != c.message || e.Hint != c.hint {
			t.Errorf("%+v: %q, %q", c.boxes, e.Message, e.Hint)
		}
	}
	if err := unsavedError([]removal{clean}); err != nil {
		t.Error(err)
	}
}

func TestLossesAreNamed(t *testing.T) {
	for _, c := range []struct {
		work api.UnsavedWork
		want string
	}{
		{api.UnsavedWork{Commits: 1, Titles: []string{"fix login"}}, "1 commit (fix login)"},
		{api.UnsavedWork{Commits: 2, Titles: []string{"a", "\x1b[2Jb"}, Files: 4, Paths: []string{"x", "y", "z", "w"}}, "2 commits (a, \ufffd[2Jb) and 4 changed files (x, y, z, \u2026)"},
		{api.UnsavedWork{Files: 1}, "1 changed file"},
	} {
		if got := workText(c.work); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What could not be looked at is a loss like any other: nobody knows what it is.
func TestUnreadWorkIsNamed(t *testing.T) {
	for want, work := range map[string]api.UnsavedWork{
		"": {},
		"box a has work that exists nowhere else: 1 changed file (x)":                          {Files: 1, Paths: []string{"x"}},
		"cannot tell all that box a has: lib: damaged; y":                                      {Missing: []string{"lib: damaged", "y"}},
		"box a has work that exists nowhere else: 1 commit; cannot tell all that box a has: x": {Commits: 1, Missing: []string{"x"}},
	} {
		if got := lossText("a", work); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"+a\n-b\tc\n": "+a\n-b\tc\n", "\x1b[32m+x\x1b[m": "\x1b[32m+x\x1b[m", "\x1b]0;t\a": "\ufffd]0;t\ufffd", "\x1b[2J": "\ufffd[2J", "\x1bc": "\ufffdc",
		"\x1b[31": "\ufffd[31", "a\rb": "a\ufffdb", "\u009b2J": "\ufffd2J", "gr\u00fc\u00df": "gr\u00fc\u00df",
	} {
		if got := string(sanitize([]byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
