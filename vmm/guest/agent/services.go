//go:build linux

package agent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"strconv"
	"sync"
	"syscall"
	"time"

	"agentbox/vmm/console"
	"agentbox/vmm/guest/protocol"
)

// services runs the services of the configuration: starts them in order, each when the one before
// is ready or has had readyTimeout, and restarts those that end. It belongs to the Agent. Each
// service has a goroutine (supervise) for as long as it is wanted.
type services struct {
	agent *Agent

	mu sync.Mutex
	// The present services in start order. stop ends them, work has their goroutines. mu guards
	// list, stop and the status of each service.
	list []*service
	stop context.CancelFunc
	work sync.WaitGroup
}

// service is one of them. services.mu guards its status.
type service struct {
	protocol.Service
	status protocol.ServiceStatus
	log    *console.Log
}

const (
	// Delays between restarts double up to maxRestart, those between checks up to maxCheck.
	readyTimeout = 2 * time.Minute       // for the next service in order; the check itself goes on
	checkTimeout = 10 * time.Second      // of one readiness check
	minCheck     = 50 * time.Millisecond // between two checks
	maxCheck     = 2 * time.Second
	minRestart   = 500 * time.Millisecond // between the end of a service and its next start
	maxRestart   = 30 * time.Second
	stableAfter  = time.Minute // a service that ran this long begins again with minRestart
)

// start replaces the services by list, which is in start order. As two sets would fight over ports,
// it first ends those that run. It does not wait for any to be ready.
func (m *services) start(list []protocol.Service) {
	m.cancel()
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = nil
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for _, s := range list {
		m.list = append(m.list, &service{
			Service: s,
			status:  protocol.ServiceStatus{Name: s.Name, State: protocol.ServiceWaiting, Since: time.Now()},
			log:     &console.Log{Perm: 0o644, Path: path.Join(m.agent.Machine.LogDir, path.Base(s.Name)+".log")},
		})
	}
	if len(list) > 0 {
		m.goRecover("services", func() { m.startInOrder(ctx, m.list) })
	}
}

// cancel keeps services from starting again. wait waits for their end, which the caller has to
// cause.
func (m *services) cancel() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
}

func (m *services) wait() { m.work.Wait() }

// goRecover is Agent.goRecover for goroutines that wait must wait for.
func (m *services) goRecover(what string, f func()) {
	m.work.Add(1)
	m.agent.goRecover(what, func() {
		defer m.work.Done()
		f()
	})
}

// startInOrder starts each service when the one before is ready or has had readyTimeout.
func (m *services) startInOrder(ctx context.Context, list []*service) {
	for _, s := range list {
		ready := make(chan struct{})
		m.goRecover("service "+s.Name, func() { m.supervise(ctx, s, ready) })
		select {
		case <-ready:
		case <-ctx.Done():
		case <-time.After(readyTimeout):
			m.agent.Log.Warn("service is not ready, going on without", "service", s.Name)
		}
	}
}

// supervise runs the service again and again, with a growing delay. It closes ready when the
// service is ready for the first time.
func (m *services) supervise(ctx context.Context, s *service, ready chan struct{}) {
	var once sync.Once
	delay := minRestart
	for restart := false; ctx.Err() == nil; restart = true {
		if restart {
			m.restarted(s)
		}
		began := time.Now()
		m.set(s, protocol.ServiceStarting, "")
		err := m.runOnce(ctx, s, func() { once.Do(func() { close(ready) }) })
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > stableAfter {
			delay = minRestart
		}
		m.set(s, protocol.ServiceFailed, err.Error())
		s.log.Write([]byte("agentbox: " + err.Error() + "\n"))
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		// A service that cannot start takes less and less of the box's time.
		delay = min(2*delay, maxRestart)
	}
	m.set(s, protocol.ServiceStopped, "")
	s.log.Close()
}

// runOnce runs the service until its main process ends, and then ends what that left behind. It
// says how the main process ended, always as an error: a service is not expected to end. It calls
// ready when the service's check succeeds.
func (m *services) runOnce(ctx context.Context, s *service, ready func()) error {
	commandEnd, agentEnd, err := newPipe(false)
	if err != nil {
		return err
	}
	p, err := m.launch(s, s.Run, []int{devNull(), commandEnd, commandEnd})
	if err != nil {
		agentEnd.Close()
		return err
	}
	m.goRecover("log of "+s.Name, func() { s.log.Copy(agentEnd) })
	m.set(s, protocol.ServiceStarting, "")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var checks sync.WaitGroup
	checks.Add(1)
	m.goRecover("check of "+s.Name, func() {
		defer checks.Done()
		if m.awaitReady(ctx, s) {
			m.set(s, protocol.ServiceReady, "")
			ready()
		}
	})
	// Stopping the services ends this one's main process.
	end := context.AfterFunc(ctx, func() { m.agent.spawner.signal(p, syscall.SIGTERM) })
	<-p.done
	end()
	stop()
	checks.Wait() // so that a check that is late does not overwrite how the service ended
	m.killLeftovers(s, p)
	if p.status.Signaled() {
		return fmt.Errorf("ended by signal %d (%s)", p.status.Signal(), p.status.Signal())
	}
	return fmt.Errorf("ended with status %d", p.status.ExitStatus())
}

// killLeftovers ends what a service left behind when its main process p ended: otherwise it would
// hold the ports and files that the next start needs. With a cgroup, that is everything the service
// started; without one (gVisor), what is still in p's process group. SIGKILL follows SIGTERM after
// termGrace.
func (m *services) killLeftovers(s *service, p *process) {
	dir, opened, err := m.agent.Machine.Cgroup(s.group())
	if err != nil {
		m.agent.Log.Warn("cannot end what a service left behind", "service", s.Name, "err", err)
		return
	}
	opened()
	if dir == nil {
		// The kernel does not reuse p's number while its group has a process.
		signal := func(sig syscall.Signal) (ended bool) { return syscall.Kill(-p.pid, sig) == syscall.ESRCH }
		if !signal(syscall.SIGTERM) && !poll(termGrace, func() bool { return signal(0) }) {
			signal(syscall.SIGKILL)
		}
		return
	}
	group := &cgroups{dir: dir.Name()}
	terminate(group, termGrace)
	if err := group.kill(); err != nil {
		m.agent.Log.Warn("cannot end what a service left behind", "service", s.Name, "err", err)
	}
}

// group is the service's cgroup below the box's.
func (s *service) group() string { return "services/" + path.Base(s.Name) }

// launch runs a line of shell as the service's user and closes the files.
func (m *services) launch(s *service, line string, files []int) (*process, error) {
	defer closeDescriptors(files)
	env := map[string]string{}
	maps.Copy(env, s.Env)
	return m.agent.launch(command{
		user: m.agent.ownUser(), path: "/bin/sh", argv: []string{"sh", "-c", line}, env: env,
		group: s.group(), files: files,
	})
}

// devNull opens /dev/null; the caller owns the descriptor. It is -1 on an error, with which the
// start of a command fails.
func devNull() int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1 // the start fails, and says so
	}
	return fd
}

// awaitReady checks until the service is ready, and returns false if it ended before.
func (m *services) awaitReady(ctx context.Context, s *service) bool {
	for wait := minCheck; ctx.Err() == nil; wait = min(2*wait, maxCheck) {
		if m.check(ctx, s) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return false
}

// check reports whether a service is ready: its command succeeds, its port accepts a connection,
// or, with neither, it runs.
func (m *services) check(ctx context.Context, s *service) bool {
	switch {
	case s.Ready != "":
		return m.checkCommand(ctx, s)
	case s.Port != 0:
		for _, host := range []string{"127.0.0.1", "::1"} {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(s.Port)), time.Second)
			if err == nil {
				conn.Close()
				return true
			}
		}
		return false
	}
	return true
}

// checkCommand runs the readiness command as the service's user. It has to succeed within
// checkTimeout.
func (m *services) checkCommand(ctx context.Context, s *service) bool {
	null := devNull()
	p, err := m.launch(s, s.Ready, []int{null, null, null})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		m.agent.spawner.signal(p, syscall.SIGKILL)
		<-p.done
	}
	return p.status.Exited() && p.status.ExitStatus() == 0
}

// set changes a service's state.
func (m *services) set(s *service, state protocol.ServiceState, failure string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.status.State != state {
		s.status.Since = time.Now()
	}
	s.status.State, s.status.Error = state, failure
}

func (m *services) restarted(s *service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.status.Restarts++
}

func (m *services) status() []protocol.ServiceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]protocol.ServiceStatus, 0, len(m.list))
	for _, s := range m.list {
		all = append(all, s.status)
	}
	return all
}
