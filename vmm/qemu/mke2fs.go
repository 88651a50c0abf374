package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/statedir"
)

// filesystem describes an ext4 file system to make in a file of its final size, which is one hole.
// Thus a workspace gets its files without a mount and without root.
type filesystem struct {
	path string
	tree string // copied in; "" for none
	// MiB; 0 for none, for a layer that is lost in a host crash anyway.
	journal int
	owner   int // of the root directory
	// At most 16 bytes; protocol.LabelChown asks the guest to change the files' owner.
	label string
}

// argv is mke2fs's command line without the program.
//
// The file is all zeros, so neither journal nor inode tables are written, here or by the guest's
// lazy initialisation: 64 GiB take 10 ms and under 1 MiB. Nothing ever grows the file system, so no
// blocks are reserved for that. prezeroed passes this on by an option of e2fsprogs 1.47 and later.
func (fs filesystem) argv(prezeroed bool) []string {
	features, extended := "^resize_inode", fmt.Sprintf("root_owner=%d:%d", fs.owner, fs.owner)
	if fs.journal == 0 {
		features += ",^has_journal"
	}
	if prezeroed {
		extended += ",assume_storage_prezeroed=1"
	}
	a := []string{"-q", "-F", "-t", "ext4", "-m", "0", "-O", features, "-E", extended}
	if fs.journal > 0 {
		a = append(a, "-J", fmt.Sprintf("size=%d", fs.journal))
	}
	if fs.label != "" {
		a = append(a, "-L", fs.label)
	}
	if fs.tree != "" {
		a = append(a, "-d", fs.tree)
	}
	return append(a, fs.path)
}

// make runs mke2fs. It recognizes one that is too old by its complaint about the option, which is
// more reliable than a version.
func (fs filesystem) make(ctx context.Context) error {
	err := fs.attempt(ctx, true)
	if err != nil && strings.Contains(err.Error(), "assume_storage_prezeroed") {
		err = fs.attempt(ctx, false) // e2fsprogs before 1.47
	}
	return err
}

// attempt runs mke2fs once, for a tree in a user namespace in which we are the guest's user, so
// that our files become that user's. Where this host forbids user namespaces the files keep the
// host's user, and a label asks the guest's agent to change it at the first mount.
func (fs filesystem) attempt(ctx context.Context, prezeroed bool) error {
	if fs.tree == "" {
		return runTool(ctx, nil, "mke2fs", fs.argv(prezeroed)...)
	}
	err := runTool(ctx, guestUser(), "mke2fs", fs.argv(prezeroed)...)
	if errors.Is(err, errNoNamespace) {
		fs.label = protocol.LabelChown // the agent gives the files to its user
		err = runTool(ctx, nil, "mke2fs", fs.argv(prezeroed)...)
	}
	return err
}

// errNoNamespace means that mke2fs could not even start in a namespace.
var errNoNamespace = errors.New("this host forbids user namespaces")

// guestUser maps us, and nobody else, to the guest's user. Files of other users in the tree, which
// staging does not make, would belong to nobody.
func guestUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: vmm.GuestUID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: vmm.GuestUID, HostID: os.Getgid(), Size: 1}},
	}
}

// runTool runs a program of e2fsprogs. A missing program is an error of code Missing, a full disk
// one of NoSpace. The output is in English whatever the user's language, for toolError reads it.
func runTool(ctx context.Context, attr *syscall.SysProcAttr, name string, argv ...string) error {
	program, err := vmm.FindProgram(name)
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "%s is not installed", name).WithHint("apt-get install e2fsprogs")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.SysProcAttr = attr
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Start(); err != nil {
		if attr != nil {
			return fmt.Errorf("%w: %w", errNoNamespace, err)
		}
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return toolError(name, stderr.String(), err)
	}
	return nil
}

// toolError tells whether there was no space, on the host (free some) or in the new file system (a
// larger disk: is needed); both are code NoSpace. mke2fs has one exit status for all failures, so
// it has to look at the text.
func toolError(name, stderr string, err error) error {
	said := strings.Join(strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	switch {
	case strings.Contains(said, "No space left on device"), strings.Contains(said, "Disk quota exceeded"):
		return statedir.HostError(fmt.Errorf("%s: %w on this host", name, syscall.ENOSPC))
	case strings.Contains(said, "Could not allocate"), strings.Contains(said, "No free space"), strings.Contains(said, "Ext2 file too big"):
		return agentbox.Errorf(agentbox.NoSpace, "the files do not fit on the box's disk").WithHint("set a larger disk: in agentbox.yaml")
	}
	return fmt.Errorf("%s: %s (%w)", name, said, err)
}
