//go:build linux

package agent

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// life is the agent's end of one life's SSH connection, as a net.Conn. The agent's reader puts in
// what the host sends; what SSH writes goes straight to the stream. mu guards buf and eof; filled
// signals a change of either.
type life struct {
	out   *output
	ended atomic.Bool // the host began another life, or the stream is gone: not the client's doing

	mu     sync.Mutex
	filled sync.Cond
	buf    []byte
	eof    bool
}

// output is the writing side of the stream, which lives share. It writes one packet at a time, and
// none of a life that ended.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

// maxUnread bounds how far the stream's reader is ahead of SSH, whose windows keep it below.
const maxUnread = 8 << 20

// newLife has nothing to read yet. out may be nil if nothing is written.
func newLife(out *output) *life {
	l := &life{out: out}
	l.filled.L = &l.mu
	return l
}

// deliver hands over bytes that the host sent. It never waits, since the stream's reader has to see
// the next Magic whatever SSH does. Beyond maxUnread it cuts the connection.
func (l *life) deliver(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The connection is cut rather than the memory filled.
	if len(l.buf)+len(b) > maxUnread {
		l.eof = true
	}
	if !l.eof {
		l.buf = append(l.buf, b...)
	}
	l.filled.Signal()
}

// end makes the connection read EOF. By ended, sessions tell that from a client that left.
func (l *life) end() {
	l.ended.Store(true)
	l.Close()
}

// Read implements net.Conn; it waits for the host.
func (l *life) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.buf) == 0 && !l.eof {
		l.filled.Wait()
	}
	if l.ended.Load() || len(l.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.buf)
	if l.buf = l.buf[n:]; len(l.buf) == 0 {
		l.buf = nil
	}
	return n, nil
}

// Write implements net.Conn. A life that ended writes nothing, so that its packets do not get into
// the next one's.
func (l *life) Write(p []byte) (int, error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.ended.Load() {
		return 0, io.ErrClosedPipe
	}
	return l.out.w.Write(p)
}

// Close ends the reading side only: the stream belongs to the machine.
func (l *life) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eof = true
	l.filled.Broadcast()
	return nil
}

// Deadlines are the host's affair; the agent waits as long as it takes.
func (l *life) SetDeadline(time.Time) error      { return nil }
func (l *life) SetReadDeadline(time.Time) error  { return nil }
func (l *life) SetWriteDeadline(time.Time) error { return nil }
func (l *life) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (l *life) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
