// Package child starts the processes of machines, so that each dies with this one. It does not
// limit what they may reach: a driver passes in what takes rights away (package confine, or
// namespaces).
//
// vmm/qemu starts QEMU with it, vmm/gvisor the launcher of a sandbox. A supervisor that is killed,
// even by SIGKILL, leaves no machine behind, since the kernel itself sends the signal to its
// children.
package child

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a program that runs. Its methods may be called from any goroutine. A goroutine of
// Start reaps it, so nobody has to call Wait.
type Process struct {
	// Of the program that was started, which also leads its process group.
	PID int

	process *os.Process
	// Closed when the process has been reaped; err is written before that and never again.
	done chan struct{}
	err  error // read it after done
}

// Start runs a program in a process group of its own, which the kernel kills when this process
// dies. before, if not nil, is called on the thread that forks and may take rights from it: the
// thread is used for nothing else afterwards.
//
// The kernel sends the parent-death signal when the thread that forked ends, so that thread lives
// for as long as the child does.
//
// Start returns when the program runs, or with the error of before or of exec.Cmd.Start; nothing
// runs then. Of cmd.SysProcAttr it sets Pdeathsig and Setpgid and leaves the rest. The caller
// closes the files of cmd, as soon as Start has returned.
func Start(cmd *exec.Cmd, before func() error) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGKILL, true
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		defer close(p.done)
		var err error
		if before != nil {
			err = before()
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID, p.process = cmd.Process.Pid, cmd.Process
	return p, nil
}

// Done is closed when the process has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits for the end of the process and returns the error of exec.Cmd.Wait.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Terminate kills the process with SIGKILL and does not wait. It is no error if the process has
// ended. Its children are not killed by it, but by their parent's death.
func (p *Process) Terminate() error {
	if err := p.process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the process and waits until it is gone. It may be called again, and concurrently.
func (p *Process) Kill() error {
	err := p.Terminate()
	<-p.done
	return err
}

// SocketPair makes two connected stream sockets: ours as a connection, theirs as a file for a child
// to inherit. Both are close-on-exec, so a child gets its end only where exec.Cmd passes it on. The
// caller closes both; name is for errors and process listings. Unlike a socket with a name, nobody
// else can connect to a pair.
func SocketPair(name string) (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), name)
	if ours, err = Conn(fds[0], name); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Conn makes a connection from the descriptor of a Unix socket, which it closes, on failure too.
func Conn(fd int, name string) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New(name + " is not a unix socket")
	}
	return u, nil
}
