//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// workspaceDisk is the workspace slot. mu guards mounted, and is held while that changes.
type workspaceDisk struct {
	// Where it is mounted, protocol.WorkspaceDir outside of tests; the owner of its files; its
	// device, "" if there is none.
	target string
	user   User
	device string // known since the boot

	mu      sync.Mutex
	mounted bool
}

// mount mounts the slot, which replays the journal. The host wrote the disk while this machine ran,
// so nothing of it may be cached: drop and unmount see to that. Idempotent; a Hello begins it
// early, while the attachment that needs it is still to come.
func (w *workspaceDisk) mount() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mounted {
		return nil
	}
	if w.device == "" {
		return errors.New("this machine has no disk for it")
	}
	err := mount{w.device, w.target, "ext4", syscall.MS_NOATIME | syscall.MS_NODEV, ext4Options + ",discard,errors=remount-ro"}.do()
	if err != nil {
		return err
	}
	// Before any command can see the files.
	if err := w.adopt(); err != nil {
		return errors.Join(err, syscall.Unmount(w.target, 0))
	}
	w.mounted = true
	return nil
}

// unmount unmounts the slot, which no process may be using. Idempotent.
func (w *workspaceDisk) unmount() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mounted {
		return nil
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount(w.target, 0); err != nil {
		return err
	}
	w.mounted = false
	return flushBuffers(w.device) // a machine of the pool finds another content there next time
}

// drop writes everything and drops cached blocks of the slot, which is another disk in a clone. It
// is called before a machine becomes a template.
func (w *workspaceDisk) drop() error {
	unix.Sync()
	if w.device == "" {
		return nil
	}
	return flushBuffers(w.device)
}

// flushBuffers drops the kernel's buffers of a block device, after writing those that are dirty.
func flushBuffers(dev string) error {
	f, err := os.Open(dev)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("drop buffers of %s: %w", dev, err)
	}
	return nil
}

// adopt gives the files to the box's user if the label says that they belong to somebody else,
// where the host could not do it (protocol.LabelChown). The label is removed last, so that it is
// repeated after a crash.
func (w *workspaceDisk) adopt() error {
	dir, err := os.Open(w.target)
	if err != nil {
		return err
	}
	defer dir.Close()
	label, err := getLabel(int(dir.Fd()))
	if err != nil || label != protocol.LabelChown {
		return nil // for a kernel without labels the owners are right already
	}
	if err := chownTree(w.target, w.user); err != nil {
		return fmt.Errorf("give the workspace to %s: %w", w.user.Name, err)
	}
	unix.Sync()
	return setLabel(int(dir.Fd()), "")
}

// giveWorkspace gives a workspace to the user of commands, if it belongs to another one: the image
// may give that user any id, and files come with the id of boxUser. The directory itself is last,
// so that it is repeated after a crash. What cannot be given stays as it is, and the user's commands
// say so.
func giveWorkspace(root string, u User) {
	var st unix.Stat_t
	if err := unix.Lstat(root, &st); err != nil || int(st.Uid) == u.UID {
		return
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return nil //nolint:nilerr // as above
		}
		if info, err := d.Info(); err == nil && os.Lchown(path, u.UID, u.GID) == nil && info.Mode().IsRegular() && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			_ = os.Chmod(path, info.Mode()) // changing the owner took them away
		}
		return nil
	})
	_ = os.Lchown(root, u.UID, u.GID)
}

// chownTree gives everything below root to a user. It keeps setuid bits and follows no links.
func chownTree(root string, u User) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := os.Lchown(path, u.UID, u.GID); err != nil {
			return err
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && info.Mode().IsRegular() {
			return os.Chmod(path, info.Mode()) // changing the owner took them away
		}
		return nil
	})
}
