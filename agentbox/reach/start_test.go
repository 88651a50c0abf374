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
	if got := h.lastLogLine(); !strings.Contains(got, "no such file") {
		t.Errorf("without a log: %q", got)
	}
	if err := os.MkdirAll(filepath.Dir(h.home.Log()), 0o700); err != nil {
		t.Fatal(err)
	}
	for log, want := range map[string]string{
		"":                                     "",
		"reason\n":                             "reason",
		strings.Repeat("x\n", 1<<20) + "why\n": "why",
		strings.Repeat("x", 1<<20):             strings.Repeat("x", maxLogLine),
	} {
		if err := os.WriteFile(h.home.Log(), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.lastLogLine(); got != want {
			t.Errorf("a log of %d bytes: %.80q, want %.80q", len(log), got, want)
		}
	}
}
