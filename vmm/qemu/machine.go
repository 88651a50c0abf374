package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
)

// machine is one QEMU process and our ends of its sockets. It implements vmm.Machine and
// vmm.Networked. The first two groups of fields never change after start.
type machine struct {
	spec        vmm.Spec
	fingerprint string
	base        *templateBase // what it was restored from; nil after a boot
	memory      *os.File      // after a boot: the guest's memory, shared with QEMU
	runtime     string        // disk files
	workspace   string

	proc    *process
	qmp     *monitor
	stream  net.Conn
	console *console.Console
	link    *link
	serving sync.WaitGroup // of the image, where it is no plain file

	resumed  chan struct{} // receives when the CPUs begin to run
	shutdown atomic.Value  // string: why the guest ended, as QEMU's SHUTDOWN event has it

	saving sync.Mutex // held by Save and SaveTemplate: one at a time
	*child.End
}

// Stream, Link and PIDs implement vmm.Machine and vmm.Networked.
func (m *machine) Stream() net.Conn { return m.stream }
func (m *machine) Link() vmm.Link   { return m.link }
func (m *machine) PIDs() []int      { return []int{m.proc.PID} }

// Freeze and Thaw implement vmm.Machine. QEMU accepts both twice; stopping may flush disks.
func (m *machine) Freeze(ctx context.Context) error {
	return m.explain(m.qmp.run(ctx, slowCommand, "stop", nil))
}

// Thaw implements vmm.Machine by QMP's cont.
func (m *machine) Thaw(ctx context.Context) error {
	return m.explain(m.qmp.run(ctx, quickCommand, "cont", nil))
}

// Kill implements vmm.Machine.
func (m *machine) Kill() error { return m.End.Kill(m.proc.Kill) }

// event is called from the monitor's reader, so it must not wait. It drops a second RESUME.
func (m *machine) event(name string, data json.RawMessage) {
	switch name {
	case "RESUME":
		select {
		case m.resumed <- struct{}{}:
		default:
		}
	case "SHUTDOWN":
		var why struct{ Reason string }
		if json.Unmarshal(data, &why) == nil {
			m.shutdown.Store(why.Reason)
		}
	}
}

// watch waits for the end of the process and then for everything that belongs to the machine. It
// reads the console to its end before reason looks at it, and closes link and stream so that the
// supervisor's readers return.
func (m *machine) watch() {
	<-m.proc.Done()
	m.qmp.close()
	m.console.Wait()
	m.stream.Close()
	m.link.Close()
	m.serving.Wait() // its client is gone
	if m.memory != nil {
		m.memory.Close()
	}
	m.Finish(m.reason)
}

// reason says in one line why the process ended, and is nil if the guest switched itself off. A
// reset is a failure, because a panic resets (see kernelArgs). Errors have code Unavailable.
func (m *machine) reason() error {
	why, _ := m.shutdown.Load().(string)
	said := m.proc.stderr.OneLine()
	switch {
	case m.proc.Err() == nil && why == "guest-shutdown":
		return nil
	case m.proc.Err() == nil && why == "guest-reset":
		return agentbox.Errorf(agentbox.Unavailable, "the guest of %s reset itself, as a kernel panic does%s", m.spec.Name, m.console.LastLine()).
			WithHint("its console is in %s", filepath.Join(m.spec.Dir, console.File))
	case said != "":
		return agentbox.Errorf(agentbox.Unavailable, "QEMU of %s ended (%s): %s", m.spec.Name, m.exit(), said)
	}
	return agentbox.Errorf(agentbox.Unavailable, "QEMU of %s ended (%s)", m.spec.Name, m.exit())
}

func (m *machine) exit() string {
	if m.proc.Err() == nil {
		return "exit status 0"
	}
	return m.proc.Err().Error()
}

// brokenSocket are errors that mean that QEMU is ending. An error in an answer of QEMU's is none.
var brokenSocket = []error{errMonitorClosed, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}

// explain replaces a command's error by why the machine ended, if that is the cause.
func (m *machine) explain(err error) error {
	return m.Explain(m.spec.Name, err, quickCommand, brokenSocket...)
}

// exitWait is how long a failed start waits for QEMU's own end to explain it: memory and sockets
// fail before the process is gone.
const exitWait = time.Second

// abandon kills a machine that failed to start with err. If it ended by itself, that is the reason
// it returns. The process is gone when it returns.
func (m *machine) abandon(err error) error {
	ended := false
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && agentbox.CodeOf(err) != agentbox.Corrupt {
		wait := exitWait
		if child.IsAny(err, brokenSocket) {
			wait = quickCommand
		}
		select {
		case <-m.Done():
			ended = true
		case <-time.After(wait):
		}
	}
	if kill := m.Kill(); kill != nil {
		err = errors.Join(err, kill)
	}
	if ended && m.Err() != nil {
		return m.Err()
	}
	return fmt.Errorf("start %s: %w", m.spec.Name, err)
}
