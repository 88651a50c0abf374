package gvisor

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a running launcher: the first process of its namespaces. When it has been reaped, no
// process of them is left.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been reaped
	err  error         // as exec.Cmd.Wait; read it after done
}

// namespaces are all new. The network one has nothing but a loopback interface.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// startLauncher runs the launcher with the given descriptors from 3 on, which stay the caller's. It
// waits for its ids.
//
// It keeps its capabilities across exec, although it has no ids yet, as ambient ones.
func startLauncher(program string, stderr *os.File, files []*os.File) (*process, error) {
	p := &process{cmd: exec.Command(program), done: make(chan struct{})}
	p.cmd.ExtraFiles = files
	if stderr != nil {
		p.cmd.Stderr = stderr
	}
	p.cmd.Dir = "/"
	p.cmd.Env = []string{}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Setpgid: true, Cloneflags: namespaces,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER},
	}
	started := make(chan error)
	go func() {
		// The parent-death signal comes when the thread that forked ends, so it is locked as long
		// as the child lives.
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		defer close(p.done)
		err := p.cmd.Start()
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

// kill ends every process of the machine and waits until they are gone.
func (p *process) kill() error { return p.killAnd(func() {}) }

// killAnd calls free between the order to end and the wait for it.
func (p *process) killAnd(free func()) error {
	err := p.cmd.Process.Kill()
	free()
	<-p.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// family lists a process and its descendants, the process first.
func family(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		threads := "/proc/" + strconv.Itoa(all[i]) + "/task/"
		entries, _ := os.ReadDir(threads)
		for _, e := range entries {
			text, _ := os.ReadFile(threads + e.Name() + "/children") // a thread that is gone has no children
			for field := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(field); err == nil && !slices.Contains(all, child) {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// socketPair makes two connected stream sockets: ours as a connection, theirs as a file to inherit.
func socketPair(name string) (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), name)
	ours, err = unixConn(fds[0], name)
	if err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

func unixConn(fd int, name string) (*net.UnixConn, error) {
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
