package supervisor

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRaiseOOMScore(t *testing.T) {
	for before, want := range map[string]string{"0\n": "500", "200\n": "500", "-900\n": "500", "500\n": "500\n", "1000\n": "1000\n"} {
		proc := t.TempDir()
		path := filepath.Join(proc, "self", "oom_score_adj")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := raiseOOMScore(proc); err != nil {
			t.Errorf("%q: %v", before, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q became %q, %v", before, got, err)
		}
	}
	if err := raiseOOMScore(t.TempDir()); err == nil {
		t.Error("nothing is said where Linux does not say it")
	}
}
