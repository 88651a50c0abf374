package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm"
	"agentbox/vmm/userns"
)

// tree is a detached mount of a directory, for root, which the box's ids may not reach by name.
func tree(dir string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// mapIDs has a detached mount show the ids on disk as those of a user namespace.
func mapIDs(mount, namespace *os.File) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	err := unix.MountSetattr(int(mount.Fd()), "", unix.AT_EMPTY_PATH, &attr)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the file system of %s cannot map ids in a mount", mount.Name())
	}
	return os.NewSyscallError("mount_setattr", err)
}

// workspaceIDs are the maps for the workspace of root's machines: on disk the box's user is root of
// the host, as for every other kind, and all other ids of the box are themselves.
func workspaceIDs(box userns.Maps) userns.Maps {
	return userns.Maps{UIDs: throughHost(box.UIDs), GIDs: throughHost(box.GIDs)}
}

// throughHost maps id 0 to the host's id of the box's user, and the other ids of the box on the host
// to themselves. box is one range.
func throughHost(box []userns.Range) []userns.Range {
	r := box[0]
	user := r.Outside + vmm.GuestUID
	return slices.DeleteFunc([]userns.Range{
		{Inside: 0, Outside: user, Size: 1},
		{Inside: r.Outside, Outside: r.Outside, Size: vmm.GuestUID},
		{Inside: user + 1, Outside: user + 1, Size: r.Size - vmm.GuestUID - 1},
	}, func(r userns.Range) bool { return r.Size <= 0 })
}

// namespaceOf makes a user namespace with these maps, by a process that ends at once: the descriptor
// keeps the namespace.
func namespaceOf(ctx context.Context, program string, ids userns.Maps) (*os.File, error) {
	cmd := exec.Command(program)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, userns.Explain(err)
	}
	// A process that has ended has its namespace until it is waited for.
	defer cmd.Wait()
	if err := ids.Apply(ctx, cmd.Process.Pid); err != nil {
		return nil, err
	}
	return openNamespace(cmd.Process.Pid)
}

func openNamespace(pid int) (*os.File, error) {
	return os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
}
