//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// GVisorMode is the agent's argument in a gVisor sandbox (vmm/gvisor/spec.go).
const GVisorMode = "gvisor"

// MainGVisor is PID 1 where the kernel is gVisor: file systems are mounted, the workspace is a
// directory of the host, standard input and output are the stream, standard error is the console.
// It never returns.
func MainGVisor() {
	if !run((*booter).runGVisor, (*booter).gvisorMachine, openStandardStream) {
		os.Exit(1)
	}
	os.Exit(0)
}

// runGVisor is run for a sandbox, where gVisor has mounted and configured everything.
func (b *booter) runGVisor() error {
	return runSteps([]step{
		{"make temporary directories", mountRuntimeTmp},
		{"limit processes", gvisorCgroup},
		{"name the boot", mountBootID},
		{"tune the kernel", tune},
		{"tell gdb that watchpoints are its own work", configureGDB},
		{"find the box's user", b.findUser},
		{"set up the network", b.gvisorNetwork},
		{"prepare the certificates", b.findAuthorities},
		{"prepare for files of the host", func() error { return prepareFiles(b.root) }},
	})
}

// mountRuntimeTmp replaces gVisor's /tmp in memory by the runtime layer's, which is on disk.
func mountRuntimeTmp() error {
	if err := syscall.Unmount("/tmp", syscall.MNT_DETACH); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return err
	}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{"/tmp", 0o1777 | os.ModeSticky}, {"/run/lock", 0o1777 | os.ModeSticky}, {protocol.ServiceLogDir, 0o755}} {
		if err := os.MkdirAll(dir.path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return err
		}
	}
	return nil
}

// configureGDB has gdb, in an image that has one, do without the processor's watchpoints, which
// gVisor lacks and refuses.
func configureGDB() error {
	const dir = "/etc/gdb/gdbinit.d"
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	return replaceFile(dir+"/agentbox.gdb", "set can-use-hw-watchpoints 0\n")
}

// gvisorMachine is the sandbox that the agent is in. Random numbers and clock are the host's, so a
// template holds nothing of them, and user processes need not be frozen while they are renewed. The
// host stops the whole machine, so they need not be frozen alone either.
func (b *booter) gvisorMachine() Machine {
	box := &gvisorBox{dir: gvisorGroup, log: b.log, memory: memory}
	box.list = func() []int { return pidsIn(filepath.Join(box.dir, "cgroup.procs")) }
	go box.watch() // for the life of the machine
	m := b.sandbox(box)
	m.Cgroup, m.LimitUser = box.join, box.limit
	return m
}

// sandbox is the part of a Machine that a sandbox and a container have in common: neither has a
// kernel or a disk of its own.
func (b *booter) sandbox(box *gvisorBox) Machine {
	m := b.common()
	m.AddEntropy = func([]byte) error { return nil }
	m.SetClock = func(time.Time) error { return nil }
	m.FreezeUser = func() error { return nil }
	m.ThawUser = func() error { return nil }
	m.TermUser, m.KillUser = box.terminate, box.kill
	m.Mount = checkWorkspace
	m.Unmount = func() error { return os.Chdir("/") } // it stays, and no process is left that uses it
	m.DropCaches = func() error { unix.Sync(); return nil }
	m.DropSlots = func() error { return nil }
	m.Stats = box.stats
	return m
}

// checkWorkspace replaces the mount: the directory is in its place from the beginning.
func checkWorkspace() error {
	st, err := os.Stat(protocol.WorkspaceDir)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a directory", protocol.WorkspaceDir)
	}
	return err
}

// openStandardStream opens the stream to the host. Standard input and output are duplicated, so
// that closing a stream leaves them open for the next.
func openStandardStream(context.Context) (io.ReadWriteCloser, error) {
	var ends [2]*os.File
	for fd, name := range []string{"input", "output"} {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		if err := unix.SetNonblock(dup, true); err != nil { // so that closing it ends a read
			return nil, os.NewSyscallError("fcntl", err)
		}
		ends[fd] = os.NewFile(uintptr(dup), name)
	}
	return stdioStream{ends[0], ends[1]}, nil
}

type stdioStream struct{ in, out *os.File }

func (s stdioStream) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdioStream) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdioStream) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }
