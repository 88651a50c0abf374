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
			"agentbox pull a gets what is checked out there as a branch, git fetch a all of its branches; agentbox rm --force a removes it anyway"},
		{[]removal{clean, a}, "box a has work",
			"agentbox pull a gets what is checked out there as a branch, git fetch a all of its branches; agentbox rm --force clean a removes them anyway"},
		{[]removal{a, clean, b}, "box a has work; box b has work",
			"agentbox pull BOX gets what is checked out there as a branch, git fetch BOX all of its branches; agentbox rm --force a clean b removes them anyway"},
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
