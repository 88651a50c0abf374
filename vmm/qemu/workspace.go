package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/statedir"
)

// ReserveWorkspace implements vmm.Driver: QEMU needs to know the size of a disk and nothing else.
func (d *Driver) ReserveWorkspace(_ context.Context, path string, size int64) error {
	f, err := createSized(path, size)
	if err != nil {
		return err
	}
	return f.Close()
}

// NewWorkspace implements vmm.Driver: a workspace is a sparse file that holds an ext4 file system.
//
// A file that exists keeps its inode, since a running QEMU may have it open. That machine has not
// mounted it, so its guest has cached nothing of it.
func (d *Driver) NewWorkspace(ctx context.Context, path, tree string, size int64) error {
	f, err := createSized(path, size)
	existed := errors.Is(err, os.ErrExist)
	if existed {
		f, err = openEmptied(path, size)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = formatWorkspace(ctx, path, tree, size)
	switch {
	case err == nil:
		return nil
	case !existed:
		return errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, clearWorkspace(context.WithoutCancel(ctx), f, size))
}

// clearWorkspace makes a workspace whose filling failed an empty one. Without space even for that
// it stays reserved, which is no error here. ctx must outlive the caller's cancellation.
func clearWorkspace(ctx context.Context, f *os.File, size int64) error {
	err := punch(f, size)
	if err == nil {
		err = formatWorkspace(ctx, f.Name(), "", size)
	}
	if agentbox.CodeOf(err) == agentbox.NoSpace {
		return punch(f, size)
	}
	return err
}

// openEmptied turns an existing file into one hole. A file of another size is code Conflict: a
// machine may know its size.
func openEmptied(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = agentbox.Errorf(agentbox.Conflict, "%s is a workspace of another size (%d bytes, not %d)", path, info.Size(), size)
	}
	if err == nil {
		err = punch(f, size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// punch makes the first size bytes of f a hole: zeros without space. The size stays.
func punch(f *os.File, size int64) error {
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size); err != nil {
		return &os.PathError{Op: "punch", Path: f.Name(), Err: err}
	}
	return nil
}

// formatWorkspace makes the file system, without the lost+found of mke2fs: users and git would
// stumble over a directory that they may not read. debugfs removes it without mounting.
func formatWorkspace(ctx context.Context, path, tree string, size int64) error {
	if err := (filesystem{path: path, tree: tree, journal: journalSize(size), owner: vmm.GuestUID}).make(ctx); err != nil {
		return err
	}
	if tree != "" {
		if _, err := os.Lstat(filepath.Join(tree, "lost+found")); err == nil {
			return nil // the tree has one of its own
		}
	}
	return runTool(ctx, nil, "debugfs", "-w", "-R", "rmdir lost+found", path)
}

// journalSize is that of a workspace in MiB: a sixteenth, up to what saves time, and 4 at least.
func journalSize(size int64) int { return int(min(size>>24, 64)) }

// CopyWorkspace implements vmm.Driver. Where the file system can share extents, the copy costs
// nothing and takes no space until one of the two is written to.
func (d *Driver) CopyWorkspace(ctx context.Context, dst, src string) error {
	return copyFile(ctx, dst, src)
}

// copyFile makes dst, which must not exist, a synced sparse copy of src, or leaves nothing.
func copyFile(ctx context.Context, dst, src string) (err error) {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := createSized(dst, info.Size())
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, to.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(dst))
		}
	}()
	if err := copySparse(ctx, to, from); err != nil {
		return err
	}
	return statedir.HostError(to.Sync())
}
