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

// maxHead is the most bytes the head of a request may have. It is also the server's bound for
// HTTP/2.
const maxHead = 64 << 10

// framing is a connection on which requests of HTTP/1 come in. What passes through Read is checked
// first: a server behind it sees whole, sound heads and bodies that end where they say, and EOF
// where something else came.
//
// It stands before net/http because that server is generous in places, and tells nobody where it
// was. Only one goroutine reads at a time, the server's; the last four fields are others', too.
type framing struct {
	net.Conn
	r *bufio.Reader
	// wrong is called once, with what was wrong, before Read gives EOF. idle says that no request
	// is under way, so that nobody else is writing.
	wrong func(err error, idle bool)

	state frameState
	// line is what was read of a head, or of one line behind it, and not checked yet.
	line  []byte
	ready []byte // checked, and not yet given on
	left  int64  // of a body or a chunk

	// opaque says that the connection speaks another protocol, for good.
	opaque atomic.Bool
	// opened counts requests whose head was given on and that are not finished: while there is one
	// the server may be writing, so nobody else may.
	opened atomic.Int64
	// recall says that the reader is called back, by a deadline that had passed when it was set.
	recall atomic.Bool
	// failed is what was wrong; nothing is read behind it.
	failed atomic.Pointer[error]
}

// frameState is what comes next on the connection:
//
//	inHead ─┬─ no body ────────────────────────────▶ inHead
//	        ├─ Content-Length ─▶ inBody ───────────▶ inHead
//	        └─ chunked ─▶ inChunkSize ─┬─ n > 0 ─▶ inChunk ─▶ inChunkEnd ─▶ inChunkSize
//	                                   └─ 0 ─▶ inTrailer ─▶ inHead
type frameState int

// What is read next. Heads and trailers end with an empty line, so these are read by lines.
const (
	inHead      frameState = iota
	inBody                 // left bytes
	inChunkSize            // a line
	inChunk                // left bytes
	inChunkEnd             // CR LF
	inTrailer              // must be the empty line
)

// newFraming checks what comes on c. wrong is called by the goroutine that reads.
func newFraming(c net.Conn, wrong func(err error, idle bool)) *framing {
	return &framing{Conn: c, r: bufio.NewReaderSize(c, 32<<10), wrong: wrong}
}

// SetReadDeadline tells a limit from a call to come back. The server reads ahead while it answers a
// request, and interrupts that with a deadline of long ago: part of the next head may have come by
// then, and the client is not late with the rest.
func (f *framing) SetReadDeadline(t time.Time) error {
	f.recall.Store(!t.IsZero() && t.Before(time.Now()))
	return f.Conn.SetReadDeadline(t)
}

// finished says that a request was answered.
func (f *framing) finished() { f.opened.Add(-1) }

// why gives what was wrong, nil so far.
func (f *framing) why() error {
	if wrong := f.failed.Load(); wrong != nil {
		return *wrong
	}
	return nil
}

// Read gives on what is checked. An error of the connection (a deadline that passed, above all)
// leaves everything as it is: the next Read goes on.
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

// advance looks at f.line, whose last byte ends a line if whole is set.
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

// chunk takes the line with a chunk's size: hex digits and nothing else, no extension, since those
// are where readings differ.
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

// head looks for the end of a head, and checks it then.
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
