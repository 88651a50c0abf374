package qemu

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/statedir"
)

const testDisk = 4 << 30

func needTools(t *testing.T) {
	for _, name := range []string{"mke2fs", "debugfs", "e2fsck"} {
		if _, err := vmm.FindProgram(name); err != nil {
			t.Skip(err)
		}
	}
}

// tool runs a program of e2fsprogs on a file system and returns what it says.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	program, err := vmm.FindProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func debugfs(t *testing.T, image, request string) string {
	t.Helper()
	return tool(t, "debugfs", "-R", request, image)
}

func oddTree(t *testing.T) string {
	tree := t.TempDir()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(os.WriteFile(filepath.Join(tree, "script"), []byte("#!/bin/sh\n"), 0o755))
	ok(os.Link(filepath.Join(tree, "script"), filepath.Join(tree, "hardlink")))
	ok(os.Symlink(strings.Repeat("far/", 30), filepath.Join(tree, "symlink")))
	ok(os.Mkdir(filepath.Join(tree, "empty"), 0o700))
	ok(os.WriteFile(filepath.Join(tree, "new\nline \xff\xfe"), []byte("odd"), 0o600))
	ok(os.WriteFile(filepath.Join(tree, "sparse"), nil, 0o644))
	ok(os.Truncate(filepath.Join(tree, "sparse"), 3<<30))
	return tree
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestNewWorkspace(t *testing.T) {
	needTools(t)
	d, path := New(Config{}), filepath.Join(t.TempDir(), "w.img")
	if err := d.NewWorkspace(context.Background(), path, oddTree(t), testDisk); err != nil {
		t.Fatal(err)
	}
	tool(t, "e2fsck", "-fn", path)
	if n := allocated(t, path); n > 8<<20 {
		t.Errorf("a workspace of a few files takes %d bytes", n)
	}
	list := debugfs(t, path, "ls -l /")
	for _, want := range []string{"100755 (1)   1000   1000", "120777 (7)   1000   1000     120", "40700 (2)   1000   1000", `new\x0aline \xff\xfe`, "3221225472"} {
		if !strings.Contains(list, want) {
			t.Errorf("there is no %q in\n%s", want, list)
		}
	}
	if strings.Contains(list, "lost+found") {
		t.Errorf("lost+found is there:\n%s", list)
	}
	if stat := debugfs(t, path, "stat /hardlink"); !strings.Contains(stat, "Links: 2") {
		t.Errorf("the hard link is a copy:\n%s", stat)
	}
}

func TestWorkspaceKeepsItsInode(t *testing.T) {
	needTools(t)
	ctx, d, path := context.Background(), New(Config{}), filepath.Join(t.TempDir(), "w.img")
	if err := d.NewWorkspace(ctx, path, "", testDisk); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path) // as a waiting QEMU has it
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := d.NewWorkspace(ctx, path, oddTree(t), testDisk); err != nil {
		t.Fatal(err)
	}
	before, err1 := open.Stat()
	after, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(before, after) {
		t.Errorf("the workspace became another file (%v, %v)", err1, err2)
	}
	if err := d.NewWorkspace(ctx, path, filepath.Join(t.TempDir(), "missing"), testDisk); err == nil {
		t.Error("made from a tree that is not there")
	}
	tool(t, "e2fsck", "-fn", path)
	if list := debugfs(t, path, "ls -l /"); strings.Contains(list, "script") {
		t.Errorf("after a failure the workspace is not empty:\n%s", list)
	}
	if err := d.NewWorkspace(ctx, path, "", 2*testDisk); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("another size: %v", err)
	}
}

func TestWorkspaceTooSmall(t *testing.T) {
	needTools(t)
	tree, path := t.TempDir(), filepath.Join(t.TempDir(), "w.img")
	if err := os.WriteFile(filepath.Join(tree, "big"), bytes.Repeat([]byte("x"), 90<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	err := New(Config{}).NewWorkspace(context.Background(), path, tree, 64<<20)
	if agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("half a workspace was left")
	}
}

// A reserved workspace for which the host has no room stays reserved, and the reason is told once.
func TestWorkspaceWithoutRoom(t *testing.T) {
	needTools(t)
	small := t.TempDir()
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("only root can make a small file system: %v", err)
	}
	defer syscall.Unmount(small, 0)
	ctx, d, path := context.Background(), New(Config{}), filepath.Join(small, "w.img")
	if err := d.ReserveWorkspace(ctx, path, testDisk); err != nil {
		t.Fatal(err)
	}
	err := d.NewWorkspace(ctx, path, oddTree(t), testDisk)
	if agentbox.CodeOf(err) != agentbox.NoSpace || strings.Count(err.Error(), "no space") != 1 {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != testDisk || allocated(t, path) != 0 {
		t.Errorf("it is not reserved any more (%v)", err)
	}
}

func TestRuntimeLayerIsSmall(t *testing.T) {
	needTools(t)
	path := filepath.Join(t.TempDir(), "r.img")
	f, err := createSized(path, 64<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (filesystem{path: path}).make(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := allocated(t, path); n > 2<<20 {
		t.Errorf("an empty runtime layer takes %d bytes", n)
	}
	if list := debugfs(t, path, "ls -l /"); !strings.Contains(list, "40755 (2)      0      0") {
		t.Errorf("the root directory is not root's:\n%s", list)
	}
}

func TestCopySparse(t *testing.T) {
	dir := t.TempDir()
	src, err := createSized(filepath.Join(dir, "src"), 8<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for _, off := range []int64{0, 5 << 30, 8<<30 - 4} {
		if _, err := src.WriteAt([]byte("data"), off); err != nil {
			t.Fatal(err)
		}
	}
	dst := filepath.Join(dir, "dst")
	if err := copyFile(context.Background(), dst, src.Name()); err != nil {
		t.Fatal(err)
	}
	if n := allocated(t, dst); n > 1<<20 {
		t.Errorf("the copy takes %d bytes", n)
	}
	f, err := os.Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range []int64{0, 5 << 30, 8<<30 - 4} {
		var b [4]byte
		if _, err := f.ReadAt(b[:], off); err != nil || string(b[:]) != "data" {
			t.Errorf("at %d: %q, %v", off, b, err)
		}
	}
	if err := copyFile(context.Background(), dst, src.Name()); !errors.Is(err, os.ErrExist) {
		t.Errorf("copied over a file: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := copyFile(ended, filepath.Join(dir, "cancelled"), src.Name()); err == nil {
		t.Log("this file system shares extents, so the copy was over before it began")
	}
}

// What a guest has made of its disk is nothing that the host can read, nor does it have to.
func TestDiskIsCopiedWithoutParsing(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	disk := make([]byte, 1<<20)
	rand.Read(disk)                          // never fails since Go 1.24
	copy(disk[1024+56:], "\x53\xef\xff\xff") // what says that it is of ext4, in a superblock of noise
	if err := os.WriteFile(src, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Driver{}).CopyWorkspace(t.Context(), dst, src); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, disk) {
		t.Errorf("the copy is another disk, %v", err)
	}
}

func TestHostErrors(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	for _, err := range []error{statedir.HostError(full), statedir.HostError(fmt.Errorf("save: %w", full)), toolError("mke2fs", "__populate_fs: No space left on device", nil)} {
		if agentbox.CodeOf(err) != agentbox.NoSpace || agentbox.AsError(err).Hint == "" {
			t.Errorf("%v has code %s", err, agentbox.CodeOf(err))
		}
	}
	if err := statedir.Corrupt("/t", "x: %w", errPages); !errors.Is(err, errPages) || agentbox.CodeOf(statedir.HostError(err)) != agentbox.Corrupt {
		t.Errorf("got %v", err)
	}
}
