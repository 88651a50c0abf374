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
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/fusefile"
	"agentbox/vmm/gvisor/plan"
)

// machine is one launcher with everything it started, and our ends of its pipes and sockets. It
// implements vmm.Machine and vmm.Networked. What is not behind a lock or a channel is set before
// start returns and never changes.
type machine struct {
	spec        vmm.Spec
	fingerprint string
	// What it was restored from, without its files, for Save to name; nil after a boot.
	base     *template
	released bool // the guest may have run; of no use once the machine has started

	launcher string // the program
	log      *slog.Logger

	proc    *child.Process
	stream  *stream
	image   *fusefile.Server // nil for an image that is a plain file
	link    *link            // nil where the host can make no card
	noCard  string           // why it cannot
	console *console.Console
	news    *net.UnixConn // from the launcher
	events  *json.Decoder // of news
	control *control      // to the sandbox

	mu     sync.Mutex // guards frozen, and is held while the sandbox is told
	frozen bool

	saving sync.Mutex // held by Save and SaveTemplate: one at a time
	*child.End
}

func (m *machine) Stream() net.Conn { return m.stream }

func (m *machine) Link() vmm.Link {
	if m.link == nil {
		return nil
	}
	return m.link
}

// PIDs are the launcher, the sandbox and its file server, and the processes in which gVisor runs
// the guest's code.
func (m *machine) PIDs() []int { return family(m.proc.PID) }

// Freeze and Thaw implement vmm.Machine. They stop and resume all processes of the sandbox, the
// agent's included.
func (m *machine) Freeze(ctx context.Context) error { return m.setFrozen(ctx, true, "Pause") }
func (m *machine) Thaw(ctx context.Context) error   { return m.setFrozen(ctx, false, "Resume") }

// setFrozen tells the sandbox once only: it counts how often it was paused. So Freeze and Thaw are
// idempotent, and safe at the same time: the second waits for the first. frozen stays as it was
// when the sandbox was not reached.
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

// end kills every process, those too that wait for bytes of the image. The launcher's death is
// enough: it is the first process of the namespaces. But one that waits in a page fault for the
// image dies only when its read fails, hence cancelImage in between.
func (m *machine) end() error {
	err := m.proc.Terminate()
	m.cancelImage()
	<-m.proc.Done()
	return err
}

// watch waits for the end of the launcher and then for everything that belongs to the machine. It
// runs as long as the machine does. It is the only reader of events. The launcher tells how the
// sandbox ended before it ends itself, so that is read first; nothing but an end comes after the
// start. Finish comes last, when all files of the machine are closed and the workspace is the
// caller's again.
func (m *machine) watch() {
	var end *plan.End
	var e plan.Event
	if m.events.Decode(&e) == nil {
		end = e.Ended
	}
	m.cancelImage()
	<-m.proc.Done()
	m.news.Close()
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

// adopt gives what the box's root made in the workspace to the caller. What fails here fails again
// when somebody wants the files, and then says so. It is not bound to any request's context: the
// machine has ended, and this is the one place that puts its workspace right. A supervisor that is
// killed before leaves that to vmm.Reclaimer.
func (m *machine) adopt() {
	if m.spec.Workspace == "" {
		return
	}
	if err := adopt(context.Background(), m.launcher, m.spec.Workspace); err != nil {
		m.log.Warn("workspace", "of", m.spec.Name, "err", err)
	}
}

// reason says why the machine ended, in one line; end is nil when the launcher itself died. It is
// nil where the guest's first process ended with status 0. Errors have code Unavailable and, where more is written somewhere, a hint that says where.
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

// explain gives the error of a call the reason why the machine ended, where that is what it looks
// like: only a call without an answer is such a sign.
func (m *machine) explain(err error) error {
	return m.Explain(m.spec.Name, err, explainTimeout, errControl)
}
