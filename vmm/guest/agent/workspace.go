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

// workspaceDisk is the workspace slot. mu guards mounted, and is held while it is mounted or
// unmounted.
type workspaceDisk struct {
	// Where the workspace is mounted; protocol.WorkspaceDir outside of tests. user is the one that
	// its files are to belong to.
	target string
	user   User
	device string // known since the boot

	mu      sync.Mutex
	mounted bool
}

// mount mounts the slot. Its content appeared while this machine was not looking, so nothing of it
// may be cached: drop and unmount see to that. The journal is replayed by the mount itself. It may
// be called again, and at the same time by a Hello that begins it early and by the attachment that
// needs it.
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
	// Before anybody sees the files: a command must not find half of them its own.
	if err := w.adopt(); err != nil {
		return errors.Join(err, syscall.Unmount(w.target, 0))
	}
	w.mounted = true
	return nil
}

// unmount lets go of the slot. No process may be using it. Idempotent.
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

// drop writes everything and forgets what was read of the slot: in a clone it is another disk. It
// is called before a machine becomes a template.
func (w *workspaceDisk) drop() error {
	unix.Sync()
	if w.device == "" {
		return nil
	}
	return flushBuffers(w.device)
}

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

// adopt gives the files to the box's user when the label says that they belong to somebody else.
// The label goes last, so that a crash in between repeats it. It is needed where the host could not
// make the files the box's (protocol.LabelChown).
func (w *workspaceDisk) adopt() error {
	dir, err := os.Open(w.target)
	if err != nil {
		return err
	}
	defer dir.Close()
	label, err := getLabel(int(dir.Fd()))
	if err != nil || label != protocol.LabelChown {
		return nil // a kernel that cannot tell is given workspaces with the right owners
	}
	if err := chownTree(w.target, w.user); err != nil {
		return fmt.Errorf("give the workspace to %s: %w", w.user.Name, err)
	}
	unix.Sync()
	return setLabel(int(dir.Fd()), "")
}

// chownTree gives everything below root to a user, setuid bits kept. Links are not followed.
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
