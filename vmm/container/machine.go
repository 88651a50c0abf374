package container

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/cable"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/userns"
)

// machine is the guest agent with everything that it started, and our ends of its sockets. It
// implements vmm.Machine and vmm.Networked. Fields without a lock do not change after the start.
type machine struct {
	driver  *Driver
	spec    vmm.Spec
	proc    *child.Process
	control *net.UnixConn
	stream  *net.UnixConn
	link    *cable.Link
	console *console.Console
	group   *group // nil if no control groups are ours

	mu      sync.Mutex // guards the next two, and is held while processes stop
	frozen  bool
	stopped map[int]bool // what stopAll stopped

	*child.End
}

var _ vmm.Networked = (*machine)(nil)

func (m *machine) Stream() net.Conn { return m.stream }
func (m *machine) Link() vmm.Link   { return m.link }

// PIDs returns the guest agent and all processes of the box.
func (m *machine) PIDs() []int { return userns.Tree(m.proc.PID) }

// Freeze implements vmm.Machine. It stops all processes of the box, the agent too.
func (m *machine) Freeze(ctx context.Context) error { return m.setFrozen(ctx, true) }

// Thaw implements vmm.Machine.
func (m *machine) Thaw(ctx context.Context) error { return m.setFrozen(ctx, false) }

// setFrozen does nothing if the state does not change. After an error frozen is as before.
func (m *machine) setFrozen(ctx context.Context, frozen bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.Done():
		return agentbox.Errorf(agentbox.Unavailable, "the machine %s has ended", m.spec.Name)
	default:
	}
	if err := ctx.Err(); err != nil || m.frozen == frozen {
		return err
	}
	var err error
	switch {
	case m.group != nil:
		err = m.group.freeze(frozen)
	case frozen:
		if err = stopAll(m.proc.PID, m.stopped); err != nil {
			continueAll(m.stopped)
		}
	default:
		continueAll(m.stopped)
	}
	if err == nil {
		m.frozen = frozen
	}
	return err
}

// Kill implements vmm.Machine. The workspace is the caller's when it returns.
func (m *machine) Kill() error { return m.End.Kill(m.proc.Kill) }

// watch runs as long as the machine. The kernel ends every process of the namespace with the agent.
func (m *machine) watch() {
	<-m.proc.Done()
	m.control.Close()
	m.console.Wait()
	m.stream.Close()
	m.link.Close()
	if err := m.removeGroup(); err != nil {
		m.driver.config.Log.Warn("control group", "of", m.spec.Name, "err", err)
	}
	if m.spec.Workspace != "" {
		if err := m.driver.Reclaim(context.Background(), m.spec.Workspace); err != nil {
			m.driver.config.Log.Warn("workspace", "of", m.spec.Name, "err", err)
		}
	}
	if err := m.driver.dropRuntime(m.spec); err != nil {
		m.driver.config.Log.Warn("runtime layer", "of", m.spec.Name, "err", err)
	}
	m.Finish(m.reason)
}

func (m *machine) removeGroup() error {
	if m.group == nil {
		return nil
	}
	return m.group.remove()
}

// reason returns why the machine ended, in one line: nil if the agent ended with status 0, or by a
// reboot(2) of the box's root, which the kernel reports as one of two signals (pid_namespaces(7)).
func (m *machine) reason() error {
	err := m.proc.Err()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGHUP):
		return nil
	case status.Signaled():
		return agentbox.Errorf(agentbox.Unavailable, "the guest agent of %s was killed (signal: %s)%s", m.spec.Name, status.Signal(), m.console.LastLine())
	}
	return agentbox.Errorf(agentbox.Unavailable, "the guest of %s ended (%w)%s", m.spec.Name, err, m.console.LastLine()).
		WithHint("its console is in %s", filepath.Join(m.spec.Dir, console.File))
}
