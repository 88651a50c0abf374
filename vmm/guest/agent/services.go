//go:build linux

package agent

import (
	"context"
	"errors"
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
	readyTimeout = 2 * time.Minute       // for the next service in order; the check itself goes on
	checkTimeout = 10 * time.Second      // of one readiness check
	minCheck     = 50 * time.Millisecond // between two checks; grows with a tenth of what has passed
	maxCheck     = 2 * time.Second
	portWait     = time.Second // between checks by a command while the service's port accepts nothing
	// Delays between restarts double up to maxRestart.
	minRestart  = 500 * time.Millisecond // between the end of a service and its next start
	maxRestart  = 30 * time.Second
	stableAfter = time.Minute // a service that ran this long begins again with minRestart
)

// start replaces the services by list, which is in start order. As two sets would fight over ports,
// it first ends those that run. It does not wait for any to be ready.
func (se *services) start(list []protocol.Service) {
	se.cancel()
	se.wait()
	se.mu.Lock()
	defer se.mu.Unlock()
	se.list = nil
	ctx, stop := context.WithCancel(context.Background())
	se.stop = stop
	for _, s := range list {
		se.list = append(se.list, &service{
			Service: s,
			status:  protocol.ServiceStatus{Name: s.Name, State: protocol.ServiceWaiting, Since: time.Now()},
			log:     &console.Log{Perm: 0o644, Path: path.Join(se.agent.Machine.LogDir, path.Base(s.Name)+".log")},
		})
	}
	if len(list) > 0 {
		se.goRecover("services", func() { se.startInOrder(ctx, se.list) })
	}
}

// cancel keeps services from starting again. wait waits for the end that the caller causes.
func (se *services) cancel() {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.stop != nil {
		se.stop()
	}
}

func (se *services) wait() { se.work.Wait() }

// goRecover is Agent.goRecover for goroutines that wait must wait for.
func (se *services) goRecover(what string, f func()) {
	se.work.Add(1)
	se.agent.goRecover(what, func() {
		defer se.work.Done()
		f()
	})
}

// startInOrder starts each service when the one before is ready or has had readyTimeout.
func (se *services) startInOrder(ctx context.Context, list []*service) {
	for _, s := range list {
		ready := make(chan struct{})
		se.goRecover("service "+s.Name, func() { se.supervise(ctx, s, ready) })
		select {
		case <-ready:
		case <-ctx.Done():
		case <-time.After(readyTimeout):
			se.agent.Log.Warn("service is not ready, going on without", "service", s.Name)
		}
	}
}

// supervise runs the service again and again, with a growing delay. It closes ready when the
// service is ready for the first time.
func (se *services) supervise(ctx context.Context, s *service, ready chan struct{}) {
	var once sync.Once
	delay := minRestart
	for restart := false; ctx.Err() == nil; restart = true {
		if restart {
			se.restarted(s)
		}
		began := time.Now()
		se.set(s, protocol.ServiceStarting, "")
		err := se.runOnce(ctx, s, func() { once.Do(func() { close(ready) }) })
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > stableAfter {
			delay = minRestart
		}
		if errors.Is(err, errCompleted) {
			se.set(s, protocol.ServiceReady, "")
			once.Do(func() { close(ready) })
			<-ctx.Done()
			break
		}
		se.set(s, protocol.ServiceFailed, err.Error())
		s.log.Write([]byte("agentbox: " + err.Error() + "\n"))
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		// A service that cannot start takes less and less of the box's time.
		delay = min(2*delay, maxRestart)
	}
	se.set(s, protocol.ServiceStopped, "")
	s.log.Close()
}

// runOnce runs the service until its main process ends, and then ends what that left behind. It
// says how the main process ended, always as an error: a service is not expected to end, except for
// a container (errCompleted). It calls ready when the service's check succeeds.
func (se *services) runOnce(ctx context.Context, s *service, ready func()) error {
	commandEnd, agentEnd, err := newPipe(false)
	if err != nil {
		return err
	}
	p, err := se.launch(s, false, []int{devNull(), commandEnd, commandEnd})
	if err != nil {
		agentEnd.Close()
		return err
	}
	se.goRecover("log of "+s.Name, func() { s.log.Copy(agentEnd) })
	se.set(s, protocol.ServiceStarting, "")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var checks sync.WaitGroup
	checks.Add(1)
	se.goRecover("check of "+s.Name, func() {
		defer checks.Done()
		if se.awaitReady(ctx, s) {
			se.set(s, protocol.ServiceReady, "")
			ready()
		}
	})
	// Stopping the services ends this one's main process.
	end := context.AfterFunc(ctx, func() { se.agent.spawner.signal(p, syscall.SIGTERM) })
	<-p.done
	end()
	stop()
	checks.Wait() // so that a check that is late does not overwrite how the service ended
	se.killLeftovers(s, p)
	if s.Container != nil && p.status.Exited() && p.status.ExitStatus() == 0 {
		return errCompleted
	}
	if p.status.Signaled() {
		return fmt.Errorf("ended by signal %d (%s)", p.status.Signal(), p.status.Signal())
	}
	return fmt.Errorf("ended with status %d", p.status.ExitStatus())
}

// killLeftovers ends what a service left behind when its main process p ended: otherwise it would
// hold the ports and files that the next start needs. With a cgroup, that is everything the service
// started; without one (gVisor), what is still in p's process group. SIGKILL follows SIGTERM after
// termGrace.
func (se *services) killLeftovers(s *service, p *process) {
	dir, opened, err := se.agent.Machine.Cgroup(s.group())
	if err != nil {
		se.agent.Log.Warn("cannot end what a service left behind", "service", s.Name, "err", err)
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
		se.agent.Log.Warn("cannot end what a service left behind", "service", s.Name, "err", err)
	}
}

func (s *service) group() string { return "services/" + path.Base(s.Name) }

// errCompleted is how a container ended whose work is done.
var errCompleted = errors.New("ended with status 0")

func (se *services) launch(s *service, check bool, files []int) (*process, error) {
	defer closeDescriptors(files)
	if s.Container != nil {
		return se.agent.launch(inContainer(se.agent.Machine.Roots, s, check, files))
	}
	line := s.Run
	if check {
		line = s.Ready
	}
	env := map[string]string{}
	maps.Copy(env, s.Env)
	return se.agent.launch(command{
		user: se.agent.ownUser(), path: "/bin/sh", argv: []string{"sh", "-c", line}, env: env,
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
func (se *services) awaitReady(ctx context.Context, s *service) bool {
	began := time.Now()
	for checked := began; ctx.Err() == nil; {
		// A command may cost as much as the service's start, and seldom succeeds before its port does.
		if s.Port == 0 || accepts(s.Port) || time.Since(checked) > portWait {
			checked = time.Now()
			if se.check(ctx, s) {
				return ctx.Err() == nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(max(time.Since(began)/10, minCheck), maxCheck)):
		}
	}
	return false
}

// check reports whether a service is ready: its command succeeds, its port accepts a connection,
// or, with neither, it runs. A container's work may be to end.
func (se *services) check(ctx context.Context, s *service) bool {
	switch c := s.Container; {
	case s.Ready != "" || c != nil && len(c.Ready) > 0:
		return se.checkCommand(ctx, s)
	case c != nil && c.Completes:
		return false // until it has ended
	case s.Port != 0:
		return accepts(s.Port)
	}
	return true
}

// accepts tells whether a port of this machine accepts connections.
func accepts(port int) bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), time.Second)
		if err == nil {
			conn.Close()
			return true
		}
	}
	return false
}

// checkCommand runs the readiness command as the service's user, for checkTimeout at most.
func (se *services) checkCommand(ctx context.Context, s *service) bool {
	null := devNull()
	p, err := se.launch(s, true, []int{null, null, null})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		se.agent.spawner.signal(p, syscall.SIGKILL)
		<-p.done
	}
	return p.status.Exited() && p.status.ExitStatus() == 0
}

func (se *services) set(s *service, state protocol.ServiceState, failure string) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if s.status.State != state {
		s.status.Since = time.Now()
	}
	s.status.State, s.status.Error = state, failure
}

func (se *services) restarted(s *service) {
	se.mu.Lock()
	defer se.mu.Unlock()
	s.status.Restarts++
}

func (se *services) status() []protocol.ServiceStatus {
	se.mu.Lock()
	defer se.mu.Unlock()
	all := make([]protocol.ServiceStatus, 0, len(se.list))
	for _, s := range se.list {
		all = append(all, s.status)
	}
	return all
}
