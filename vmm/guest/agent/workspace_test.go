//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A workspace belongs to the user of commands, whatever the user's id, and links lead nowhere.
func TestGiveWorkspace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	tool := filepath.Join(root, "dir/tool")
	if err := os.Mkdir(filepath.Join(root, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{tool, outside} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(tool, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []int{1001, 1000} { // and back
		giveWorkspace(root, User{UID: uid, GID: uid})
		for path, want := range map[string]int{root: uid, filepath.Join(root, "dir"): uid, tool: uid, filepath.Join(root, "link"): uid, outside: 0} {
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := int(info.Sys().(*syscall.Stat_t).Uid); got != want { //nolint:forcetypeassert // on Linux
				t.Errorf("%s belongs to %d, not %d", path, got, want)
			}
		}
	}
	if info, err := os.Stat(tool); err != nil || info.Mode()&os.ModeSetuid == 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
