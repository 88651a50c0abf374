//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentbox/vmm/guest/protocol"
)

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s: %w", m.target, err)
	}
	return nil
}

func mountAll(list []mount) error {
	for _, m := range list {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// noExecFlags is for file systems of the kernel, where no program is run and no device opened.
const noExecFlags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

// mountKernel mounts what the first steps need, still in the initramfs. The console stays: the
// kernel opened it before /dev was mounted.
func mountKernel() error {
	return mountAll([]mount{
		{"proc", "/proc", "proc", noExecFlags, ""},
		{"sysfs", "/sys", "sysfs", noExecFlags, ""},
		{"devtmpfs", "/dev", "devtmpfs", syscall.MS_NOSUID, "mode=0755"},
	})
}

// Directories of the initramfs that the root file system is put together from.
const (
	imageMount   = "/mnt/image"
	runtimeMount = "/mnt/runtime"
	newRoot      = "/mnt/root"
)

// ext4Options keep the kernel from initializing a large file system in the background.
const ext4Options = "noinit_itable,no_prefetch_block_bitmaps"

// mountRoot mounts the runtime layer over the image. Both stay mounted below, out of the box's
// sight. The layer's own tmp is for switchRoot.
func mountRoot() error {
	image, err := waitForSlot(protocol.SlotImage)
	if err != nil {
		return err
	}
	runtime, err := waitForSlot(protocol.SlotRuntime)
	if err != nil {
		return err
	}
	err = mountAll([]mount{
		{image, imageMount, "erofs", syscall.MS_RDONLY, ""},
		{runtime, runtimeMount, "ext4", syscall.MS_NOATIME, ext4Options},
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{"upper", "work", "tmp"} {
		if err := os.MkdirAll(filepath.Join(runtimeMount, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(runtimeMount, "tmp"), 0o1777|os.ModeSticky); err != nil {
		return err
	}
	// The layer is lost with the machine, so it need not be synced. A volatile overlay never is,
	// and cannot be mounted again after a crash.
	return mount{"root", newRoot, "overlay", syscall.MS_NOATIME,
		"lowerdir=" + imageMount + ",upperdir=" + runtimeMount + "/upper,workdir=" + runtimeMount + "/work,volatile"}.do()
}

// slotTimeout is how long a disk may take to appear after its driver was loaded.
const slotTimeout = 30 * time.Second

func waitForSlot(serial string) (device string, err error) {
	poll(slotTimeout, func() bool {
		device, err = slot(serial)
		return err == nil
	})
	return device, err
}

// slot finds the block device with a serial number, one of the names in vmm/guest/protocol. The
// order of disks means nothing.
func slot(serial string) (string, error) {
	files, err := filepath.Glob("/sys/block/vd*/serial")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(text)) == serial {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
		}
	}
	return "", fmt.Errorf("there is no disk %q", serial)
}

// switchRoot makes the overlay the root and frees the memory of the initramfs, which cannot be
// reached any more. The agent goes on, since its program is open.
func switchRoot() error {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		target := filepath.Join(newRoot, dir)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(dir, target, "", syscall.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	// The runtime's own tmp serves /tmp without an overlay in between.
	if err := (mount{runtimeMount + "/tmp", newRoot + "/tmp", "", syscall.MS_BIND, ""}).do(); err != nil {
		return err
	}
	// The agent alone takes megabytes of the initramfs.
	for _, path := range []string{"/init", "/modules"} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// mountTemporary mounts the rest, now in the root that users see. /run has at most a quarter of the
// memory, since the box's user can fill it. The group of devpts is tty (5).
func mountTemporary() error {
	const noDev = syscall.MS_NOSUID | syscall.MS_NODEV
	err := mountAll([]mount{
		{"devpts", "/dev/pts", "devpts", syscall.MS_NOSUID | syscall.MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666"},
		{"shm", "/dev/shm", "tmpfs", noDev, "mode=1777"},
		{"run", "/run", "tmpfs", noDev, "mode=0755,size=25%"},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", noExecFlags, ""},
	})
	if err != nil {
		return err
	}
	for _, link := range [][2]string{
		{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
	} {
		if err := os.Symlink(link[0], link[1]); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := os.MkdirAll(protocol.ServiceLogDir, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/lock", 0o755); err != nil {
		return err
	}
	return os.Chmod("/run/lock", 0o1777|os.ModeSticky)
}
