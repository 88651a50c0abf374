//go:build linux

package agent

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"
)

// spawner starts processes and reports how they ended. As PID 1 it also reaps every orphan of the
// machine. mu guards waiting and closed. It is held while a process starts and while its end is
// recorded, so that a PID is not signalled after it was reaped. started wakes the reaper.
type spawner struct {
	orphans bool // this is PID 1: wait for everybody's children

	mu      sync.Mutex
	started sync.Cond
	waiting map[int]*process
	closed  bool // nothing is started any more
}

type process struct {
	// PID, process group and session have this number.
	pid    int
	done   chan struct{} // closed when it has ended
	status syscall.WaitStatus
}

func newSpawner(orphans bool) *spawner {
	s := &spawner{orphans: orphans, waiting: map[int]*process{}}
	s.started.L = &s.mu
	if orphans {
		go s.reap() // for the life of the machine
	}
	return s
}

// ignoreSIGCHLD has the kernel send no SIGCHLD: the reaper waits in wait4, and the Go runtime
// would interrupt a thread for each signal.
func ignoreSIGCHLD() error {
	const sizeofSet = 8
	var byDefault struct { // the kernel's sigaction, all zero: the default action, which ignores it
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&byDefault)), 0, sizeofSet, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// start runs a program. An error is that of fork, chdir or exec. The lock is held until the process
// is known, so the reaper cannot take its status before. The caller waits for p.done and may read
// p.status after that.
func (s *spawner) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, done: make(chan struct{})}
	s.waiting[pid] = p
	if s.orphans {
		s.started.Signal()
	} else {
		go s.wait(p) // ends with the process
	}
	return p, nil
}

// errClosed is why nothing starts after close.
var errClosed = errors.New("the box is shutting down")

// close is killAll for good: start fails from now on.
func (s *spawner) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.killAll()
}

// killAll ends the process group of everything that was started and has not ended.
func (s *spawner) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.waiting {
		syscall.Kill(-pid, syscall.SIGKILL) // an error means that the group has ended
	}
}

// signal sends sig to the process's group, unless the process was reaped.
func (s *spawner) signal(p *process, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.done:
	default:
		syscall.Kill(-p.pid, sig) // an error means that the group has ended
	}
}

// reap waits for any child, for as long as the machine runs. Without children there are no orphans
// either, so it sleeps until the next start.
func (s *spawner) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		s.mu.Lock()
		if err == syscall.ECHILD && len(s.waiting) == 0 {
			s.started.Wait()
		}
		if p := s.waiting[pid]; err == nil && p != nil {
			s.ended(p, status)
		}
		s.mu.Unlock()
	}
}

// wait replaces the reaper in a process that is not PID 1, whose other children are not ours.
func (s *spawner) wait(p *process) {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended(p, status)
}

// ended records how a process ended; mu is held.
func (s *spawner) ended(p *process, status syscall.WaitStatus) {
	delete(s.waiting, p.pid)
	p.status = status
	close(p.done)
}
