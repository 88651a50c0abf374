package home_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

func TestWritableHomeIsRefused(t *testing.T) {
	for _, name := range []string{".", "boxes", "run", "host", "images"} {
		own := filepath.Join(t.TempDir(), "h")
		setenv(t, own, "", "", "")
		dir := filepath.Join(own, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []os.FileMode{0o720, 0o702, 0o777} {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			err := home.Home{Dir: own}.Create()
			if e := agentbox.AsError(err); err == nil || e.Code != agentbox.Invalid || !strings.Contains(e.Hint, "chmod go-w") {
				t.Errorf("%s with mode %o: %v", name, mode, err)
			}
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := (home.Home{Dir: own}).Create(); err != nil {
			t.Errorf("%s that others may read only: %v", name, err)
		}
	}
}

func TestForeignHomeIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives a directory away")
	}
	for _, name := range []string{".", "boxes", "run"} {
		own := filepath.Join(t.TempDir(), "h")
		setenv(t, own, "", "", "")
		dir := filepath.Join(own, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := (home.Home{Dir: own}).Create(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
