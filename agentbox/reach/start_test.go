package reach

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox/home"
)

func TestLastLogLine(t *testing.T) {
	h := Here{home: home.Home{Dir: t.TempDir()}}
	if got, _ := h.lastLogLine(); !strings.Contains(got, "no such file") {
		t.Errorf("without a log: %q", got)
	}
	if err := os.MkdirAll(filepath.Dir(h.home.Log()), 0o700); err != nil {
		t.Fatal(err)
	}
	for log, want := range map[string][2]string{
		"":                                     {},
		"reason\n":                             {"reason", ""},
		strings.Repeat("x\n", 1<<20) + "why\n": {"why", ""},
		strings.Repeat("x", 1<<20):             {strings.Repeat("x", maxLogLine), ""},
		"x\nagentbox: why\nhint: do this\n":    {"why", "do this"},
		"hint: alone\n":                        {"hint: alone", ""},
	} {
		if err := os.WriteFile(h.home.Log(), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if line, hint := h.lastLogLine(); line != want[0] || hint != want[1] {
			t.Errorf("a log of %d bytes: %.80q, %q, want %.80q", len(log), line, hint, want)
		}
	}
}
