package qemu

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/confine"
	"agentbox/vmm/console"
)

// process is a running QEMU that dies with this process.
type process struct {
	cmd    *exec.Cmd
	stderr console.Tail
	done   chan struct{} // closed when the process has been reaped
	err    error         // as exec.Cmd.Wait; read it after done
}

// startProcess runs a program with the given descriptors from 3 on, which stay the caller's. It can
// open nothing but reach, or whatever we can where that is nil.
//
// The kernel sends the parent-death signal when the thread that forked ends, not when the process
// does, and confines what a thread forks. So the fork happens on a thread that is locked for as
// long as the child lives.
func startProcess(program string, argv []string, files []*os.File, reach *confine.Files) (*process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0) // the confined thread could not
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p := &process{cmd: exec.Command(program, argv...), done: make(chan struct{})}
	p.cmd.ExtraFiles = files
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = null, null, &p.stderr
	p.cmd.Dir = "/"
	p.cmd.Env = []string{} // QEMU needs nothing of ours, and may be taken over by a guest
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		defer close(p.done)
		var err error
		if reach != nil {
			err = confine.Thread(*reach)
		}
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process and waits until it is gone.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// socketPair makes two connected stream sockets: ours as a connection, theirs as a file to inherit.
func socketPair(name string) (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), name)
	f := os.NewFile(uintptr(fds[0]), name)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}
