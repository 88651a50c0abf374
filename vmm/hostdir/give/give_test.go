//go:build linux

package give

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a box made belongs to its user afterwards, however deep it lies. Links are not followed, and
// what is the user's already stays as it is.
func TestAdopt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	const user = 12345
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	at, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	for range 20 { // longer than any path that a program can name
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(name)
		if err := errors.Join(err, at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	defer at.Close()
	if err := errors.Join(at.WriteFile("file", nil, 0o600), at.Symlink(outside, "link"), at.WriteFile("own", nil, 0o600), at.Chown("own", user, 54321)); err != nil {
		t.Fatal(err)
	}
	if err := Tree(top, user); err != nil {
		t.Fatal(err)
	}
	owner := func(info os.FileInfo, err error) (int, int) {
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		return int(st.Uid), int(st.Gid)
	}
	for _, name := range []string{".", "file", "link"} {
		if uid, gid := owner(at.Lstat(name)); uid != user || gid != user {
			t.Errorf("%s is of %d:%d", name, uid, gid)
		}
	}
	if uid, _ := owner(os.Lstat(top)); uid != user {
		t.Errorf("the directory itself is of %d", uid)
	}
	if uid, gid := owner(at.Lstat("own")); uid != user || gid != 54321 {
		t.Errorf("a file of the user's own is of %d:%d", uid, gid)
	}
	if uid, _ := owner(os.Lstat(outside)); uid != 0 {
		t.Errorf("a link was followed, and its target is of %d", uid)
	}
}
