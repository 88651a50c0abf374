package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxHead bounds the head of a request in bytes, also for the HTTP/2 server.
const maxHead = 64 << 10

// checkedConn checks the HTTP/1 requests that come in on a connection. The server that reads
// through it sees complete, valid heads and bodies that end where they say, and EOF in place of
// anything else.
//
// net/http reads only through it, because that server is lenient in places and does not say where.
// Only the server's goroutine reads; the last four fields are shared.
type checkedConn struct {
	net.Conn
	r *bufio.Reader
	// onInvalid is called once with the error, before Read returns EOF. idle says that no request
	// is under way, so nobody else is writing.
	onInvalid func(err error, idle bool)

	state frameState
	// line is the part of a head, or of a line after it, that has not been checked.
	line      []byte
	ready     []byte // checked and not yet read
	remaining int64  // of a body or a chunk

	// upgraded says that the connection speaks another protocol, for good.
	upgraded atomic.Bool
	// inFlight counts requests that were passed on and are not finished. While there is one, the
	// server may be writing, so nobody else may.
	inFlight atomic.Int64
	// interrupted says that the server interrupts a read, by a deadline that had already passed.
	interrupted atomic.Bool
	// failed is the error; nothing is read after it.
	failed atomic.Pointer[error]
}

// frameState is what comes next on the connection:
//
//	inHead ─┬─ no body ────────────────────────────▶ inHead
//	        ├─ Content-Length ─▶ inBody ───────────▶ inHead
//	        └─ chunked ─▶ inChunkSize ─┬─ n > 0 ─▶ inChunk ─▶ inChunkEnd ─▶ inChunkSize
//	                                   └─ 0 ─▶ inTrailer ─▶ inHead
type frameState int

// What is read next. Heads and trailers end with an empty line, so they are read by lines.
const (
	inHead      frameState = iota
	inBody                 // left bytes
	inChunkSize            // a line
	inChunk                // left bytes
	inChunkEnd             // CR LF
	inTrailer              // must be the empty line
)

// newCheckedConn checks the requests on c. The reading goroutine calls onInvalid, which must not
// read from the result.
func newCheckedConn(c net.Conn, onInvalid func(err error, idle bool)) *checkedConn {
	return &checkedConn{Conn: c, r: bufio.NewReaderSize(c, 32<<10), onInvalid: onInvalid}
}

// SetReadDeadline tells a timeout from an interruption. The server reads ahead while it answers a
// request, and interrupts that with a deadline in the past. Part of the next head may have arrived
// by then, and the client is not late with the rest.
func (c *checkedConn) SetReadDeadline(t time.Time) error {
	c.interrupted.Store(!t.IsZero() && t.Before(time.Now()))
	return c.Conn.SetReadDeadline(t)
}

// requestDone says that a request was answered. It is called once for each request that the server
// got, by any goroutine.
func (c *checkedConn) requestDone() { c.inFlight.Add(-1) }

// invalid returns why nothing more is read, nil while all was valid.
func (c *checkedConn) invalid() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Read returns what was checked. An error of the connection, usually a passed deadline, changes
// nothing: the next Read continues.
func (c *checkedConn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		upgraded := c.upgraded.Load()
		if upgraded { // what was read of a head is the other protocol's
			c.ready, c.line = append(c.ready, c.line...), nil
		}
		switch {
		case c.failed.Load() != nil:
			return 0, io.EOF
		case len(c.ready) > 0:
			n := copy(p, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		case upgraded:
			return c.r.Read(p)
		case c.state == inBody || c.state == inChunk:
			n, err := c.r.Read(p[:min(int64(len(p)), c.remaining)])
			c.consume(int64(n))
			return n, err
		}
		line, err := c.r.ReadSlice('\n')
		if err := c.consumeLine(line, err); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// consume counts bytes of a body, and advances the state at its end.
func (c *checkedConn) consume(n int64) {
	if c.remaining -= n; c.remaining > 0 {
		return
	}
	if c.state == inBody {
		c.state = inHead
	} else {
		c.state = inChunkEnd
	}
}

// consumeLine takes a line, or a part of one, outside of a body; err is that of the read. It
// returns io.EOF once the request is invalid.
func (c *checkedConn) consumeLine(part []byte, err error) error {
	c.line = append(c.line, part...)
	complete := err == nil
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil // a line that is longer than the buffer comes in parts
	}
	var invalid error
	switch {
	case c.upgraded.Load(): // since the read began
	case err == nil:
		invalid = c.advance(complete)
	case isTimeout(err) && !c.interrupted.Load() && c.inFlight.Load() == 0 && len(c.line) > 0:
		invalid = errors.New("the head of the request did not arrive in time")
	}
	if invalid == nil {
		return err
	}
	c.failed.Store(&invalid)
	c.onInvalid(invalid, c.inFlight.Load() == 0)
	return io.EOF
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// advance checks f.line; complete says that its last byte ends a line.
func (c *checkedConn) advance(complete bool) error {
	if c.state == inHead {
		return c.head(complete)
	}
	const longest = 32 // of a chunk's size, with its end
	if !complete || len(c.line) > longest {
		return errors.New("a chunk's line is too long")
	}
	line := c.line
	c.line = nil
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return errors.New("a chunk's line does not end with CR LF")
	}
	switch c.state {
	case inChunkSize:
		if err := c.chunk(string(text)); err != nil {
			return err
		}
	case inTrailer:
		if len(text) > 0 {
			return errors.New("trailers behind the last chunk")
		}
		c.state = inHead
	case inChunkEnd:
		if len(text) > 0 {
			return errors.New("a chunk is longer than it says")
		}
		c.state = inChunkSize
	}
	c.ready = append(c.ready, line...)
	return nil
}

// chunk takes the line with a chunk's size. It accepts hex digits only, and no extensions, because
// servers read those differently.
func (c *checkedConn) chunk(size string) error {
	n, err := strconv.ParseUint(size, 16, 62)
	if err != nil || len(size) > 15 || strings.ContainsAny(size, "+_xX") {
		return errors.New("a chunk's size is not a number")
	}
	c.remaining, c.state = int64(n), inChunk
	if n == 0 {
		c.state = inTrailer
	}
	return nil
}

// head checks the head once it is complete.
func (c *checkedConn) head(complete bool) error {
	if len(c.line) > maxHead {
		return errors.New("the head of the request is too long")
	}
	if bytes.Equal(c.line, []byte("\r\n")) && complete {
		return errors.New("an empty line where a request begins")
	}
	if !complete || !bytes.HasSuffix(c.line, []byte("\n\r\n")) && !bytes.HasSuffix(c.line, []byte("\n\n")) {
		return nil
	}
	b, err := parseHead(c.line)
	if err != nil {
		return err
	}
	c.ready, c.line = c.line, nil
	c.inFlight.Add(1)
	switch {
	case b.chunked:
		c.state = inChunkSize
	case b.length > 0:
		c.state, c.remaining = inBody, b.length
	}
	return nil
}
