//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTerminalWithoutDescriptionFallsBack(t *testing.T) {
	dir, none := t.TempDir(), t.TempDir()
	for _, name := range []string{"x/xterm-256color", "x/xterm", "s/screen-256color", "v/vt100"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for term, want := range map[string]string{
		"xterm-256color": "xterm-256color", "vt100": "vt100",
		"xterm-kitty": "xterm-256color", "xterm-ghostty": "xterm-256color", "foot": "xterm-256color", "wezterm": "xterm-256color",
		"tmux-256color": "screen-256color", "screen.xterm-256color": "screen-256color",
		"../x/xterm": "../x/xterm", ".": ".", "a/b": "a/b",
	} {
		if got := knownTerminal(term, []string{none, dir}); got != want {
			t.Errorf("%s becomes %s, want %s", term, got, want)
		}
	}
	if got := knownTerminal("foot", []string{none}); got != "foot" {
		t.Errorf("where no terminal is described, foot becomes %s", got)
	}
}
