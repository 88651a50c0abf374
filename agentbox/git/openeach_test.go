package git

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Both ways to open a path refuse a link wherever it is, and open what has none.
func TestOpenWithoutLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	err = errors.Join(os.MkdirAll("a/b", 0o755), os.WriteFile("a/b/file", []byte("text"), 0o644),
		os.Symlink("a", "first"), os.Symlink("b", "a/middle"), os.Symlink("file", "a/b/last"), os.Symlink(filepath.Join(dir, "a"), "absolute"))
	if err != nil {
		t.Fatal(err)
	}
	for way, open := range map[string]func(string, int) (*os.File, error){"openNoLinks": openNoLinks, "openEach": openEach} {
		for _, name := range []string{"a/b/file", "./a//b/../b/file", filepath.Join(dir, "a/b/file")} {
			f, err := open(name, os.O_RDONLY)
			if err != nil {
				t.Fatalf("%s %s: %v", way, name, err)
			}
			if text, err := io.ReadAll(f); string(text) != "text" || err != nil {
				t.Errorf("%s %s: %q, %v", way, name, text, err)
			}
			f.Close()
		}
		for _, name := range []string{"first/b/file", "a/middle/file", "a/b/last", "absolute/b/file", filepath.Join(dir, "a/middle/file")} {
			if f, err := open(name, os.O_RDONLY); !errors.Is(err, syscall.ELOOP) {
				t.Errorf("%s %s: %v, %v", way, name, f, err)
			}
		}
		for name, want := range map[string]error{"a/none/file": os.ErrNotExist, "a/b/file/below": syscall.ENOTDIR} {
			if _, err := open(name, os.O_RDONLY); !errors.Is(err, want) {
				t.Errorf("%s %s: %v", way, name, err)
			}
		}
		if f, err := open("/", os.O_RDONLY|dirOnly); err != nil {
			t.Errorf("%s of the root: %v", way, err)
		} else {
			f.Close()
		}
	}
}
