package gvisor

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/cable"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/fusefile"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/userns"
)

// machine is a launcher with everything that it started, and our ends of its pipes and sockets. It
// implements vmm.Machine and vmm.Networked. Fields without a lock do not change after start.
type machine struct {
	spec        vmm.Spec
	fingerprint string
	released    bool // the guest may have run; only for errors of start

	launcher string // path of the program
	log      *slog.Logger

	proc       *child.Process
	stream     *stream
	image      *fusefile.Server // nil if the image is a plain file
	link       *cable.Link      // nil if the host cannot make an interface
	noCard     string           // why it cannot
	console    *console.Console
	toLauncher *net.UnixConn // from the launcher
	events     *json.Decoder // of toLauncher
	control    *control      // to the sandbox

	mu     sync.Mutex // guards frozen, and is held during the call to the sandbox
	frozen bool

	saving sync.Mutex // held by Save
	*child.End
}

func (m *machine) Stream() net.Conn { return m.stream }

func (m *machine) Link() vmm.Link {
	if m.link == nil {
		return nil
	}
	return m.link
}

// PIDs returns the launcher, the sandbox, its file server, and the processes that run the guest's
// code.
func (m *machine) PIDs() []int { return userns.Tree(m.proc.PID) }

// Freeze implements vmm.Machine. It stops all processes of the guest, the agent too.
func (m *machine) Freeze(ctx context.Context) error { return m.setFrozen(ctx, true, "Pause") }

// Thaw implements vmm.Machine.
func (m *machine) Thaw(ctx context.Context) error { return m.setFrozen(ctx, false, "Resume") }

// setFrozen calls the sandbox only if the state changes, as gVisor counts how often it was paused.
// Of concurrent calls the second waits. After an error frozen is as before.
func (m *machine) setFrozen(ctx context.Context, frozen bool, method string) error {
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
	if err := m.control.call(ctx, quickCall, method, nil); err != nil {
		return m.explain(err)
	}
	m.frozen = frozen
	return nil
}

// Kill implements vmm.Machine. The workspace is the caller's when it returns.
func (m *machine) Kill() error { return m.End.Kill(m.end) }

// end kills every process, by killing the launcher. A process that waits in a page fault for the
// image dies only when its read fails, hence cancelImage.
func (m *machine) end() error {
	err := m.proc.Terminate()
	m.cancelImage()
	<-m.proc.Done()
	return err
}

// watch runs as long as the machine. It is the only reader of events: the launcher's only event
// after the start says how the sandbox ended, and then the launcher ends, too. After that watch
// closes all files and adopts the workspace. Finish comes last.
func (m *machine) watch() {
	var end *plan.End
	var e plan.Event
	if m.events.Decode(&e) == nil {
		end = e.Ended
	}
	m.cancelImage()
	<-m.proc.Done()
	m.toLauncher.Close()
	m.control.close()
	m.console.Wait()
	m.stream.Close()
	if m.link != nil {
		m.link.Close()
	}
	if m.image != nil {
		m.image.Wait()
	}
	m.adopt()
	m.Finish(func() error { return m.reason(end) })
}

// adopt gives what the box's root made in the workspace to the caller. It belongs to no request, so
// it has no context. An error is only logged: whoever needs the files gets it again. If the
// supervisor is killed before, vmm.Reclaimer does the same.
func (m *machine) adopt() {
	if m.spec.Workspace == "" {
		return
	}
	if err := adopt(context.Background(), m.launcher, m.spec.Workspace); err != nil {
		m.log.Warn("workspace", "of", m.spec.Name, "err", err)
	}
}

// reason returns why the machine ended, in one line: nil if the guest's first process ended with
// status 0, else an error of code Unavailable, with a hint where more is to be read. end is nil if
// the launcher itself died.
func (m *machine) reason(end *plan.End) error {
	switch {
	case end != nil && end.Status == 0 && end.Signal == 0:
		return nil
	case end == nil:
		return agentbox.Errorf(agentbox.Unavailable, "the launcher of %s was killed", m.spec.Name)
	case end.Signal != 0 && end.Orphan:
		return agentbox.Errorf(agentbox.Unavailable, "gVisor's file server of %s was killed", m.spec.Name)
	case end.Signal != 0:
		return agentbox.Errorf(agentbox.Unavailable, "gVisor of %s ended (signal: %s)%s", m.spec.Name, syscall.Signal(end.Signal), m.console.LastLine()).
			WithHint("its log is %s", filepath.Join(m.spec.Dir, machineDir, logFile))
	}
	return agentbox.Errorf(agentbox.Unavailable, "the guest of %s ended (exit status %d)%s", m.spec.Name, end.Status, m.console.LastLine()).
		WithHint("its console is in %s", filepath.Join(m.spec.Dir, console.File))
}

const explainTimeout = 10 * time.Second

// explain replaces the error of a call that got no answer with the reason why the machine ended.
func (m *machine) explain(err error) error {
	return m.Explain(m.spec.Name, err, explainTimeout, errControl)
}
