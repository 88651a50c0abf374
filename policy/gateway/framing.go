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

// framing checks the HTTP/1 requests that come in on a connection. The server that reads through it
// sees complete, valid heads and bodies that end where they say, and EOF in place of anything else.
//
// It stands before net/http because that server is lenient in places and does not say where. Only
// the server's goroutine reads; the last four fields are shared.
type framing struct {
	net.Conn
	r *bufio.Reader
	// wrong is called once with the error, before Read returns EOF. idle says that no request is
	// under way, so nobody else is writing.
	wrong func(err error, idle bool)

	state frameState
	// line is the part of a head, or of a line after it, that has not been checked.
	line  []byte
	ready []byte // checked and not yet read
	left  int64  // of a body or a chunk

	// opaque says that the connection speaks another protocol, for good.
	opaque atomic.Bool
	// opened counts requests that were passed on and are not finished. While there is one, the
	// server may be writing, so nobody else may.
	opened atomic.Int64
	// recall says that the server interrupts a read, by a deadline that had already passed.
	recall atomic.Bool
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

// newFraming checks the requests on c. The reading goroutine calls wrong.
func newFraming(c net.Conn, wrong func(err error, idle bool)) *framing {
	return &framing{Conn: c, r: bufio.NewReaderSize(c, 32<<10), wrong: wrong}
}

// SetReadDeadline tells a timeout from an interruption. The server reads ahead while it answers a
// request, and interrupts that with a deadline in the past. Part of the next head may have arrived
// by then, and the client is not late with the rest.
func (f *framing) SetReadDeadline(t time.Time) error {
	f.recall.Store(!t.IsZero() && t.Before(time.Now()))
	return f.Conn.SetReadDeadline(t)
}

// finished says that a request was answered.
func (f *framing) finished() { f.opened.Add(-1) }

// why returns the error, nil so far.
func (f *framing) why() error {
	if wrong := f.failed.Load(); wrong != nil {
		return *wrong
	}
	return nil
}

// Read returns what was checked. An error of the connection, usually a passed deadline, changes
// nothing: the next Read continues.
func (f *framing) Read(p []byte) (int, error) {
	for len(p) > 0 {
		opaque := f.opaque.Load()
		if opaque { // what was read of a head is the other protocol's
			f.ready, f.line = append(f.ready, f.line...), nil
		}
		switch {
		case f.failed.Load() != nil:
			return 0, io.EOF
		case len(f.ready) > 0:
			n := copy(p, f.ready)
			f.ready = f.ready[n:]
			return n, nil
		case opaque:
			return f.r.Read(p)
		case f.state == inBody || f.state == inChunk:
			n, err := f.r.Read(p[:min(int64(len(p)), f.left)])
			f.took(int64(n))
			return n, err
		}
		line, err := f.r.ReadSlice('\n')
		if err := f.tookLine(line, err); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// took counts bytes of a body.
func (f *framing) took(n int64) {
	if f.left -= n; f.left > 0 {
		return
	}
	if f.state == inBody {
		f.state = inHead
	} else {
		f.state = inChunkEnd
	}
}

// tookLine takes a line, or a part of one, outside of a body.
func (f *framing) tookLine(part []byte, err error) error {
	f.line = append(f.line, part...)
	whole := err == nil
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil // a line that is longer than the buffer comes in parts
	}
	var bad error
	switch {
	case f.opaque.Load(): // since the read began
	case err == nil:
		bad = f.advance(whole)
	case isTimeout(err) && !f.recall.Load() && f.opened.Load() == 0 && len(f.line) > 0:
		bad = errors.New("the head of the request does not come to its end in time")
	}
	if bad == nil {
		return err
	}
	f.failed.Store(&bad)
	f.wrong(bad, f.opened.Load() == 0)
	return io.EOF
}

// isTimeout tells whether a deadline passed.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// advance checks f.line; whole says that its last byte ends a line.
func (f *framing) advance(whole bool) error {
	if f.state == inHead {
		return f.head(whole)
	}
	const longest = 32 // of a chunk's size, with its end
	if !whole || len(f.line) > longest {
		return errors.New("a chunk's line is too long")
	}
	line := f.line
	f.line = nil
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return errors.New("a chunk's line ends in another way than CR LF")
	}
	switch f.state {
	case inChunkSize:
		if err := f.chunk(string(text)); err != nil {
			return err
		}
	case inTrailer:
		if len(text) > 0 {
			return errors.New("trailers behind the last chunk")
		}
		f.state = inHead
	case inChunkEnd:
		if len(text) > 0 {
			return errors.New("a chunk is longer than it says")
		}
		f.state = inChunkSize
	}
	f.ready = append(f.ready, line...)
	return nil
}

// chunk takes the line with a chunk's size. It accepts hex digits only, and no extensions, because
// servers read those differently.
func (f *framing) chunk(size string) error {
	n, err := strconv.ParseUint(size, 16, 62)
	if err != nil || len(size) > 15 || strings.ContainsAny(size, "+_xX") {
		return errors.New("a chunk's size is not a number")
	}
	f.left, f.state = int64(n), inChunk
	if n == 0 {
		f.state = inTrailer
	}
	return nil
}

// head checks the head once it is complete.
func (f *framing) head(whole bool) error {
	if len(f.line) > maxHead {
		return errors.New("the head of the request is too long")
	}
	if bytes.Equal(f.line, []byte("\r\n")) && whole {
		return errors.New("an empty line where a request begins")
	}
	if !whole || !bytes.HasSuffix(f.line, []byte("\n\r\n")) && !bytes.HasSuffix(f.line, []byte("\n\n")) {
		return nil
	}
	b, err := parseHead(f.line)
	if err != nil {
		return err
	}
	f.ready, f.line = f.line, nil
	f.opened.Add(1)
	switch {
	case b.chunked:
		f.state = inChunkSize
	case b.length > 0:
		f.state, f.left = inBody, b.length
	}
	return nil
}
