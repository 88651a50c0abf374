package bounded

import (
	"io"
	"net"
	"sync"
)

// ReadAhead reads from a source in a goroutine of its own, whether or not anybody asks for the
// bytes yet, and keeps at most a bound of them.
//
// It is for two ends that each read and write over one stream, such as two SSH peers. An end that
// stops reading while its own write blocks stands still for ever when the other end does the same.
// An end that reads ahead lets the other end finish its write, and so go on reading.
//
// Read is for one goroutine at a time; Close may be called from any.
type ReadAhead struct {
	done chan struct{} // closed when nothing reads from the source any more

	mu      sync.Mutex
	changed *sync.Cond // one of the fields below has changed
	bytes   []byte     // that were read and not asked for yet
	limit   int
	err     error // of the source, told behind the last byte
	closed  bool
}

// readAheadPiece is how much is read from the source at once, in bytes.
const readAheadPiece = 32 << 10

// NewReadAhead begins to read from r and keeps at most limit bytes, or readAheadPiece if that is
// more. The caller calls Close, and sees to it that a Read of r that waits ends then.
func NewReadAhead(r io.Reader, limit int) *ReadAhead {
	a := &ReadAhead{done: make(chan struct{}), limit: max(limit, readAheadPiece)}
	a.changed = sync.NewCond(&a.mu)
	go func() {
		defer close(a.done)
		a.fill(r)
	}()
	return a
}

// fill reads until the source fails or Close is called. While the buffer is full it does not read.
func (ra *ReadAhead) fill(r io.Reader) {
	piece := make([]byte, readAheadPiece)
	for {
		n, err := r.Read(piece)
		ra.mu.Lock()
		for len(ra.bytes)+n > ra.limit && !ra.closed {
			ra.changed.Wait()
		}
		ra.bytes, ra.err = append(ra.bytes, piece[:n]...), err
		ended := err != nil || ra.closed
		ra.changed.Broadcast()
		ra.mu.Unlock()
		if ended {
			return
		}
	}
}

// Read implements io.Reader. It fails with the source's error once all that came before has been
// read, and with io.ErrClosedPipe after Close.
func (ra *ReadAhead) Read(p []byte) (int, error) {
	ra.mu.Lock()
	defer ra.mu.Unlock()
	for len(ra.bytes) == 0 && ra.err == nil && !ra.closed {
		ra.changed.Wait()
	}
	switch {
	case ra.closed:
		return 0, io.ErrClosedPipe
	case len(ra.bytes) == 0:
		return 0, ra.err
	}
	n := copy(p, ra.bytes)
	if ra.bytes = ra.bytes[n:]; len(ra.bytes) == 0 {
		ra.bytes = nil // what a burst took is given back
	}
	ra.changed.Broadcast()
	return n, nil
}

// Close drops what was not read, and returns when nothing reads from the source any more. It may be
// called more than once.
func (ra *ReadAhead) Close() {
	ra.mu.Lock()
	ra.closed, ra.bytes = true, nil
	ra.changed.Broadcast()
	ra.mu.Unlock()
	<-ra.done
}

// SSHAhead is how much of an SSH connection is read ahead, in bytes: what some hundred writers of
// the other end can have under way while its SSH waits to answer.
const SSHAhead = 8 << 20

// NewConn returns conn with reads that run ahead, and owns it from then on. For the end of a
// connection between two Go programs that speak SSH (golang.org/x/crypto v0.58.0 answers from the
// goroutine that reads).
func NewConn(conn net.Conn) net.Conn {
	return &aheadConn{conn, NewReadAhead(conn, SSHAhead)}
}

type aheadConn struct {
	net.Conn
	ahead *ReadAhead
}

func (a *aheadConn) Read(p []byte) (int, error) { return a.ahead.Read(p) }

func (a *aheadConn) Close() error {
	err := a.Conn.Close()
	a.ahead.Close()
	return err
}
