//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/nsinit"
)

// makeRoot mounts the machine's own root and makes it the root of this mount namespace, so that no
// other file of the host can be named. Mounts are private, so the host sees none of them. The root
// is a tmpfs of one MiB for mount points. /proc, for runsc, has only the processes of this
// namespace.
func (l *launcher) makeRoot() error {
	root := l.plan.Root
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("root", root, "tmpfs", syscall.MS_NOSUID, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	for _, b := range l.plan.Binds {
		if err := bind(root, b); err != nil {
			return fmt.Errorf("show %s: %w", b.Source, err)
		}
	}
	if err := l.mountImage(root); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	proc := filepath.Join(root, "proc")
	if err := os.Mkdir(proc, 0o555); err != nil {
		return err
	}
	if err := syscall.Mount("proc", proc, "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o1777); err != nil {
		return err
	}
	return pivot(root)
}

// pivot makes root the root and unmounts the old one. With the same directory as both arguments,
// the old root is on top of the new one (pivot_root(2)).
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	return os.Chdir("/")
}

// bind mounts one file or directory without setuid bits, and without devices and read-only unless
// the plan says otherwise. Mounts below it are left out.
func bind(root string, b plan.Bind) error {
	target := filepath.Join(root, b.Target)
	if err := nsinit.MakeTarget(target, b.Dir); err != nil {
		return err
	}
	if err := syscall.Mount(b.Source, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	var set uint64 = unix.MOUNT_ATTR_NOSUID
	if !b.Device {
		set |= unix.MOUNT_ATTR_NODEV
	}
	if !b.Writable {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	err := unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_set: set})
	if !errors.Is(err, unix.ENOSYS) {
		return os.NewSyscallError("mount_setattr", err)
	}
	return remount(target, b) // a kernel before 5.12
}

// remount sets a mount's flags, with those of the source, which this namespace may not remove.
func remount(target string, b plan.Bind) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	const kept = unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME | unix.ST_RELATIME | unix.ST_RDONLY | unix.ST_NODEV
	flags := uintptr(st.Flags)&kept | unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID
	if !b.Device {
		flags |= unix.MS_NODEV
	}
	if !b.Writable {
		flags |= unix.MS_RDONLY
	}
	return syscall.Mount("", target, "", flags, "")
}
