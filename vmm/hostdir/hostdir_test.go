package hostdir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func TestInPlaceWorkspacePermissions(t *testing.T) {
	d := Workspaces{}
	path := filepath.Join(t.TempDir(), "workspace")
	if err := d.ReserveWorkspace(t.Context(), path, 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil { // as a copy of a private repository leaves it
		t.Fatal(err)
	}
	if err := d.FinishWorkspace(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestCopyTreePreservesListing(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(src, "script"), []byte("#!/bin/sh\n"), 0o755),
		os.Chmod(filepath.Join(src, "script"), 0o4751|os.ModeSetuid),
		os.Mkdir(filepath.Join(src, "dir"), 0o700),
		os.WriteFile(filepath.Join(src, "dir", "\xff\n"), nil, 0o400),
		os.Symlink("nowhere", filepath.Join(src, "link")),
		os.Link(filepath.Join(src, "script"), filepath.Join(src, "dir", "again")),
		CopyTree(t.Context(), dst, src, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(dir string) string {
		var b bytes.Buffer
		if err := ListTree(&b, dir); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(b.String(), "\n") // without the directory itself
		return rest
	}
	if one, two := list(src), list(dst); one != two || !strings.Contains(one, "link") {
		t.Errorf("a copy differs:\n%s\n%s", one, two)
	}
	one, err1 := os.Stat(filepath.Join(dst, "script"))
	two, err2 := os.Stat(filepath.Join(dst, "dir", "again"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("a hard link became two files (%v, %v)", err1, err2)
	}
	if err := CopyTree(t.Context(), t.TempDir(), src, 5); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("beyond its limit: %v", err)
	}
}

// A box can make a file that says it has a terabyte and takes a block. Neither a save nor a fork
// may fill the disk with its holes.
func TestHolesAreNotCopied(t *testing.T) {
	const size = 64 << 20
	src, dst := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(src, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err1 := f.WriteAt([]byte("begin"), 0)
	_, err2 := f.WriteAt([]byte("middle"), size/2+100)
	if err := errors.Join(err1, err2, f.Truncate(size), f.Sync()); err != nil {
		t.Fatal(err)
	}
	blocks := func(path string) int64 {
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if blocks(f.Name()) > size/2 {
		t.Skip("this file system has no holes")
	}
	if err := CopyTree(t.Context(), dst, src, 0); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dst, "sparse")
	if got := blocks(copied); got > size/2 {
		t.Errorf("a copy of %d bytes takes %d", blocks(f.Name()), got)
	}
	one, err1 := agentbox.DigestFile(f.Name())
	two, err2 := agentbox.DigestFile(copied)
	if err := errors.Join(err1, err2); err != nil || one != two {
		t.Errorf("the copy differs: %v", err)
	}
}
