//go:build linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/nsinit"
)

// staging is where the root is put together, out of sight of the host: any directory that every
// user of every host can reach.
const staging = "/tmp"

// Order of the mounts of a plan.
const (
	treeImage = iota
	treeAgent
	treeRuntime
	treeWorkspace
)

// openTrees makes a detached mount of each directory of the plan, unless they came with it. A
// directory has no mounts below it. That has to be done while this process is still the caller.
func (l *launcher) openTrees() error {
	if l.plan.Given {
		if len(l.trees) != 4 {
			return fmt.Errorf("%d mounts came with the plan", len(l.trees))
		}
		return nil
	}
	for _, path := range []string{l.plan.Image, l.plan.Agent, l.plan.Runtime, l.plan.Workspace} {
		fd, err := openTree(path)
		if err != nil {
			return err
		}
		l.trees = append(l.trees, fd)
	}
	return nil
}

func openTree(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	return fd, nil
}

// shown are the devices that a box may use. None leads to the hardware, nor to another process: a
// network interface made by tun is one of the box's namespace, a file system of fuse is seen by the
// box alone. A host may lack those of optional.
var (
	shown    = []string{"null", "zero", "full", "random", "urandom", "tty"}
	optional = []string{"fuse", "net/tun"}
)

func (l *launcher) openDevices() error {
	l.devices = map[string]int{}
	for _, name := range append(shown, optional...) {
		fd, err := openTree("/dev/" + name)
		if errors.Is(err, os.ErrNotExist) && (name == optional[0] || name == optional[1]) {
			continue
		}
		if err != nil {
			return err
		}
		l.devices[name] = fd
	}
	for _, e := range l.plan.Extra {
		fd, err := openTree(e.Source)
		if err != nil {
			return err
		}
		l.extra = append(l.extra, fd)
	}
	return nil
}

// makeRoot makes the image, under an overlay, the root of this mount namespace. What is mounted in
// it is mounted after the root has changed: a link in the image leads to the image.
func (l *launcher) makeRoot() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("staging", staging, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount %s: %w", staging, err)
	}
	for i, name := range []string{"image", "agent", "runtime"} {
		if err := attach(l.trees[i], filepath.Join(staging, name), true, unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	if err := l.mountOverlays(); err != nil {
		return err
	}
	if err := pivot(filepath.Join(staging, "root")); err != nil {
		return err
	}
	if err := l.fillRoot(); err != nil {
		return err
	}
	// Where the old root lies, on top of the new one (pivot_root(2)).
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	return os.Chdir("/")
}

// mountOverlays mounts the root, and opens the guest agent on an overlay of its own. Attributes of
// the overlay are the user's (userxattr), as those of the kernel need root of the host. It need not
// be synced: the runtime layer is lost with the machine.
func (l *launcher) mountOverlays() error {
	for _, dir := range []string{"root", "program", "none"} {
		if err := os.Mkdir(filepath.Join(staging, dir), 0o755); err != nil {
			return err
		}
	}
	upper, work := filepath.Join(staging, "runtime/upper"), filepath.Join(staging, "runtime/work")
	if !l.plan.Given { // the driver, being root, has done so
		if err := errors.Join(os.Chown(upper, 0, 0), os.Chown(work, 0, 0)); err != nil {
			return err
		}
	}
	options := "lowerdir=" + filepath.Join(staging, "image") + ",upperdir=" + upper + ",workdir=" + work + ",userxattr,volatile"
	if err := syscall.Mount("root", filepath.Join(staging, "root"), "overlay", syscall.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount an overlay over the image: %w", err)
	}
	program := filepath.Join(staging, "program")
	options = "lowerdir=" + filepath.Join(staging, "agent") + ":" + filepath.Join(staging, "none") + ",userxattr"
	if err := syscall.Mount("program", program, "overlay", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount an overlay over the agent: %w", err)
	}
	var err error
	l.agent, err = unix.Open(filepath.Join(program, agentName), unix.O_PATH|unix.O_CLOEXEC, 0)
	return err
}

// pivot makes root the root. The old one stays mounted on top of it, where only "." reaches it.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	return os.NewSyscallError("pivot_root", syscall.PivotRoot(".", "."))
}

type mount struct {
	kind, target string
	flags        uintptr
	data         string
}

const (
	noExec = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	noDev  = syscall.MS_NOSUID | syscall.MS_NODEV
)

// fillRoot mounts the rest. The kernel lets a user namespace mount /proc and /sys where those of the
// host are fully visible; files in them that concern the host belong to root of the host.
func (l *launcher) fillRoot() error {
	size := ",size=" + strconv.FormatInt(l.plan.Shared, 10)
	list := []mount{
		{"proc", "/proc", noExec, ""},
		{"sysfs", "/sys", noExec | syscall.MS_RDONLY, ""},
		{"tmpfs", "/dev", syscall.MS_NOSUID, "mode=0755,size=1m"},
		{"devpts", "/dev/pts", syscall.MS_NOSUID | syscall.MS_NOEXEC, "newinstance,gid=5,mode=0620,ptmxmode=0666"},
		{"mqueue", "/dev/mqueue", noExec, ""},
		{"tmpfs", "/dev/shm", noDev, "mode=1777" + size},
		{"tmpfs", "/run", noDev, "mode=0755" + size},
	}
	if l.plan.Cgroup {
		list = append(list, mount{"cgroup2", "/sys/fs/cgroup", noExec | syscall.MS_RDONLY, ""})
	}
	for _, m := range list {
		if !strings.HasPrefix(m.target, "/sys/") {
			if err := os.MkdirAll(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for name, fd := range l.devices {
		if err := attach(fd, "/dev/"+name, false, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for i, e := range l.plan.Extra {
		attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY)
		if e.Device {
			attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
		}
		if err := attach(l.extra[i], e.Target, e.Dir, attributes); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, "/dev/"+link); err != nil {
			return err
		}
	}
	return attach(l.trees[treeWorkspace], "/workspace", true, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// attach mounts a detached mount at a target that it makes, with more attributes.
func attach(tree int, target string, dir bool, attributes uint64) error {
	if err := nsinit.MakeTarget(target, dir); err != nil {
		return err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount_setattr for %s: %w", target, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return unix.Close(tree)
}
