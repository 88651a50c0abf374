package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Every wait for QEMU has a deadline: a context's, or these.
const (
	quickCommand = 30 * time.Second // answers from memory
	slowCommand  = time.Minute      // may flush disks
)

// maxMessage bounds one line from QEMU, which a guest may have taken over. A longer line ends the
// conversation, and so the machine's use.
const maxMessage = 1 << 20

// errMonitorClosed is the error of commands when QEMU has ended, or is about to.
var errMonitorClosed = errors.New("QEMU closed its control socket")

// monitor is a client of the QEMU Machine Protocol: JSON objects, one a line, answers matched by
// id, events in between. Any number of goroutines may send commands. One goroutine reads, until the
// socket fails or is closed; close waits for it.
type monitor struct {
	conn    *net.UnixConn
	onEvent func(name string, data json.RawMessage) // called from the reader; must not block

	mu      sync.Mutex // guards what follows, and writes
	next    uint64
	pending map[uint64]chan message
	err     error // why the reader ended
	// Closed when the reader has ended, after err was set.
	closed chan struct{}
}

// message is the greeting, an event, or the answer to the command with that ID.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	ID       uint64          `json:"id"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// newMonitor takes over conn and reads until it closes. The first command must be negotiate.
func newMonitor(conn *net.UnixConn, onEvent func(string, json.RawMessage)) *monitor {
	m := &monitor{conn: conn, onEvent: onEvent, pending: map[uint64]chan message{}, closed: make(chan struct{})}
	go m.read()
	return m
}

func (m *monitor) close() {
	m.conn.Close()
	<-m.closed
}

// read is the reader. It ends the conversation at anything but JSON.
func (m *monitor) read() {
	defer close(m.closed)
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var msg message
		if err := json.Unmarshal(lines.Bytes(), &msg); err != nil {
			m.fail(fmt.Errorf("QEMU's control socket sent something that is not JSON: %w", err))
			return
		}
		m.dispatch(msg)
	}
	err := lines.Err()
	if err == nil {
		err = errMonitorClosed
	}
	m.fail(err)
}

// dispatch passes a message to the command that waits for it. It drops an answer that nobody waits
// for: QEMU may be in a guest's hands.
func (m *monitor) dispatch(msg message) {
	switch {
	case msg.Event != "":
		m.onEvent(msg.Event, msg.Data)
	case msg.Greeting != nil:
	default:
		m.mu.Lock()
		answer := m.pending[msg.ID]
		delete(m.pending, msg.ID)
		m.mu.Unlock()
		if answer != nil {
			answer <- msg
		}
	}
}

// fail gives every waiting command the reason why no answer will come.
func (m *monitor) fail(err error) {
	m.conn.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	for id, answer := range m.pending {
		delete(m.pending, id)
		close(answer)
	}
}

func (m *monitor) negotiate(ctx context.Context) error {
	return m.run(ctx, quickCommand, "qmp_capabilities", nil)
}

// run executes a command and reports whether it failed. limit bounds the wait besides ctx, since
// QEMU may never answer. files are sent along, as add-fd requires, and stay the caller's. An error
// begins with the command's name; errors.Is finds errMonitorClosed and those of a context.
func (m *monitor) run(ctx context.Context, limit time.Duration, name string, args any, files ...*os.File) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id, answer, err := m.send(ctx, files, name, args)
	if err != nil {
		return fmt.Errorf("QEMU command %s: %w", name, err)
	}
	select {
	case msg, ok := <-answer:
		return m.finish(name, msg, ok)
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.pending, id)
		m.mu.Unlock()
		return fmt.Errorf("QEMU command %s: no answer: %w", name, ctx.Err())
	}
}

// finish is the result of a command; ok is false when the reader ended before its answer.
func (m *monitor) finish(name string, msg message, ok bool) error {
	switch {
	case !ok:
		m.mu.Lock()
		defer m.mu.Unlock()
		return fmt.Errorf("QEMU command %s: %w", name, m.err)
	case msg.Error != nil:
		return fmt.Errorf("QEMU command %s: %s", name, msg.Error.Desc)
	}
	return nil
}

// send writes one command. The channel has room for its answer, so the reader never waits for a
// caller that gave up. m.mu is held while it writes, so that commands are whole and in the order of
// their IDs.
func (m *monitor) send(ctx context.Context, files []*os.File, name string, args any) (uint64, chan message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, nil, m.err
	}
	m.next++
	line, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{name, args, m.next})
	if err != nil {
		return 0, nil, err
	}
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	deadline, _ := ctx.Deadline()
	m.conn.SetWriteDeadline(deadline)
	answer := make(chan message, 1)
	m.pending[m.next] = answer
	if _, _, err := m.conn.WriteMsgUnix(append(line, '\n'), rights, nil); err != nil {
		delete(m.pending, m.next)
		return 0, nil, err
	}
	return m.next, answer, nil
}
