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
	"agentbox/vmm/console"
)

// machine is one QEMU process and our ends of its sockets. It implements vmm.Machine and
// vmm.Networked. Everything but the last two groups is set before start returns and never changes.
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
	killed   atomic.Bool   // by us
	shutdown atomic.Value  // string: why the guest ended, as QEMU's SHUTDOWN event has it

	saving sync.Mutex // held by Save and SaveTemplate: one at a time
	done   chan struct{}
	err    error // why it ended; read it after done
}

// Stream, Link, PIDs and Done implement vmm.Machine and vmm.Networked. QEMU is one process.
func (m *machine) Stream() net.Conn      { return m.stream }
func (m *machine) Link() vmm.Link        { return m.link }
func (m *machine) PIDs() []int           { return []int{m.proc.PID} }
func (m *machine) Done() <-chan struct{} { return m.done }

// Err implements vmm.Machine; it is nil while the machine runs.
func (m *machine) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Freeze and Thaw implement vmm.Machine. QEMU takes both twice; stopping may flush disks.
func (m *machine) Freeze(ctx context.Context) error {
	return m.explain(m.qmp.run(ctx, slowCommand, "stop", nil))
}

func (m *machine) Thaw(ctx context.Context) error {
	return m.explain(m.qmp.run(ctx, quickCommand, "cont", nil))
}

// Kill implements vmm.Machine.
func (m *machine) Kill() error {
	select {
	case <-m.done:
		return nil
	default:
	}
	m.killed.Store(true)
	err := m.proc.Kill()
	<-m.done
	return err
}

// event is called from the monitor's reader. It is on the way of every answer, so it must not wait:
// a second RESUME that nobody waits for is dropped.
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
// runs as long as the machine does. It is what closes done, after m.err was set. The order matters:
// what QEMU said last is read to its end before reason looks for it, and the cable and the stream
// are closed so that the supervisor's readers return.
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
	m.err = m.reason()
	close(m.done)
}

// reason says why the process ended, in one line, and is nil where there is nothing to tell: we
// killed it, or the guest switched itself off. A reset counts as a failure, because a panic resets
// (see kernelArgs). Errors have code Unavailable.
func (m *machine) reason() error {
	why, _ := m.shutdown.Load().(string)
	said := m.proc.stderr.OneLine()
	switch {
	case m.killed.Load(), m.proc.Err() == nil && why == "guest-shutdown":
		return nil
	case m.proc.Err() == nil && why == "guest-reset":
		return agentbox.Errorf(agentbox.Unavailable, "the guest of %s reset itself, as a kernel panic does%s", m.spec.Name, m.console.LastWords()).
			WithHint("its console is in %s", filepath.Join(m.spec.Dir, console.File))
	case said != "":
		return agentbox.Errorf(agentbox.Unavailable, "QEMU of %s ended (%s): %s", m.spec.Name, m.exit(), said)
	}
	return agentbox.Errorf(agentbox.Unavailable, "QEMU of %s ended (%s)", m.spec.Name, m.exit())
}

// exit is how QEMU ended, for a message.
func (m *machine) exit() string {
	if m.proc.Err() == nil {
		return "exit status 0"
	}
	return m.proc.Err().Error()
}

// explain prefers why the machine ended to the broken socket its end looks like from here. It waits
// for watch to find out, but not for ever. Errors of a context stay what they are, for the caller
// gave up and the machine may be fine.
func (m *machine) explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !m.ending(err) {
		return err
	}
	select {
	case <-m.done: // the control socket is closed, so the end is near
	case <-time.After(quickCommand):
		return err
	}
	if m.err != nil {
		return m.err
	}
	return agentbox.Errorf(agentbox.Unavailable, "the machine %s has ended: %w", m.spec.Name, err)
}

// ending tells whether a failed command means that QEMU is on its way out, with something to say. A
// closed or broken socket is such a sign; an error that QEMU answered is none.
func (m *machine) ending(err error) bool {
	for _, sign := range []error{errMonitorClosed, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// deathNotice is how long a failure to start waits for QEMU's own end to explain it: its memory and
// sockets fail first.
const deathNotice = time.Second

// abandon kills a machine that did not get started, and says why it ended if it ended by itself:
// whatever failed then failed for that reason. It returns when the process is gone.
func (m *machine) abandon(err error) error {
	ended := false
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && agentbox.CodeOf(err) != agentbox.Corrupt {
		wait := deathNotice
		if m.ending(err) {
			wait = quickCommand
		}
		select {
		case <-m.done:
			ended = true
		case <-time.After(wait):
		}
	}
	if kill := m.Kill(); kill != nil {
		err = errors.Join(err, kill)
	}
	if ended && m.err != nil {
		return m.err
	}
	return fmt.Errorf("start %s: %w", m.spec.Name, err)
}
