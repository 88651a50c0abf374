package vmmtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// Fake is a driver whose machines are goroutines of this process and whose disks are directories.
// It keeps every promise of package vmm but isolation, so that what is above can be tested without
// a machine.
//
// Its guests speak a protocol of their own; Connect begins a conversation.
type Fake struct {
	// Fail, when set, is asked before every operation, named like the method, and can make it fail.
	Fail func(operation string) error

	started atomic.Int64
}

var (
	_ vmm.Driver      = (*Fake)(nil)
	_ vmm.Snapshotter = (*Fake)(nil)
)

func (d *Fake) fail(ctx context.Context, operation string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.Fail != nil {
		return d.Fail(operation)
	}
	return nil
}

// Started counts the machines that were started.
func (d *Fake) Started() int { return int(d.started.Load()) }

// Probe implements vmm.Driver.
func (d *Fake) Probe(ctx context.Context, _ bool) (vmm.Facts, error) {
	return vmm.Facts{Version: "fake", Reason: "no machine at all"}, d.fail(ctx, "Probe")
}

// Fingerprint implements vmm.Driver.
func (d *Fake) Fingerprint(ctx context.Context, s vmm.Spec) (string, error) {
	return fmt.Sprintf("fake-%x", sha256.Sum256(fmt.Appendf(nil, "%d %d %d %s", s.CPUs, s.Memory, s.Disk, s.Kernel))), d.fail(ctx, "Fingerprint")
}

// ReserveWorkspace implements vmm.Driver.
func (d *Fake) ReserveWorkspace(ctx context.Context, path string, _ int64) error {
	if err := d.fail(ctx, "ReserveWorkspace"); err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}

// NewWorkspace implements vmm.Driver: a workspace is a directory.
func (d *Fake) NewWorkspace(ctx context.Context, path, tree string, _ int64) error {
	if err := d.fail(ctx, "NewWorkspace"); err != nil {
		return err
	}
	if tree == "" {
		return os.MkdirAll(path, 0o700)
	}
	if _, err := os.Stat(tree); err != nil {
		return err
	}
	return fill(path, tree)
}

// CopyWorkspace implements vmm.Driver.
func (d *Fake) CopyWorkspace(ctx context.Context, dst, src string) error {
	if err := d.fail(ctx, "CopyWorkspace"); err != nil {
		return err
	}
	if _, err := os.Stat(src); err != nil {
		return err
	}
	if _, err := os.Lstat(dst); err == nil {
		return agentbox.Errorf(agentbox.Exists, "%s exists already", dst)
	}
	return fill(dst, src)
}

// fill copies a tree into a directory, which is made when missing and emptied when that fails.
func fill(dst, src string) error {
	_, missing := os.Lstat(dst)
	if err := os.MkdirAll(dst, 0o700); err != nil {
		return err
	}
	err := copyTree(dst, src)
	if err == nil {
		return nil
	}
	err = errors.Join(err, os.RemoveAll(dst))
	if missing == nil {
		err = errors.Join(err, os.Mkdir(dst, 0o700))
	}
	return err
}

func copyTree(dst, src string) error {
	links := map[uint64]string{} // the first copy of an inode that has several names
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(src, path)
		if err := errors.Join(err, relErr); err != nil || rel == "." {
			return err
		}
		return copyEntry(filepath.Join(dst, rel), path, e, links)
	})
}

func copyEntry(dst, src string, e fs.DirEntry, links map[uint64]string) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch {
	case e.IsDir():
		return os.Mkdir(dst, info.Mode().Perm())
	case e.Type() == fs.ModeSymlink:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case !e.Type().IsRegular():
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		if first := links[st.Ino]; first != "" {
			return os.Link(first, dst)
		}
		links[st.Ino] = dst
	}
	b, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, b, info.Mode().Perm())
}

// Boot implements vmm.Driver.
func (d *Fake) Boot(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	if err := d.fail(ctx, "Boot"); err != nil {
		return nil, err
	}
	fingerprint, err := d.Fingerprint(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(runtimeDir(s)); err != nil {
		return nil, err
	}
	d.started.Add(1)
	return startFake(s, fakeState{Fingerprint: fingerprint})
}

func runtimeDir(s vmm.Spec) string { return filepath.Join(s.Dir, "runtime") }
