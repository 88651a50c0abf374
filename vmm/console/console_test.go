package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConsoleIsBounded(t *testing.T) {
	dir := t.TempDir()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := New(dir, ours)
	line := []byte("[    1.5] " + strings.Repeat("x", 1000) + "\n")
	for range 3 * Limit / len(line) {
		if _, err := theirs.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	theirs.Write([]byte("[    2.0] Kernel panic - not syncing: test\n[    2.1] ---\n"))
	theirs.Close()
	c.Wait()
	for _, name := range []string{File, File + ".1"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > Limit {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if got := c.LastLine(); got != ": Kernel panic - not syncing: test" {
		t.Errorf("last words: %q", got)
	}
}
