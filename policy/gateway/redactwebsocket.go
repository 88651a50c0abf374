package gateway

import (
	"bufio"
	"errors"
	"io"
)

// frameRedactor redacts what a server sends in a WebSocket (RFC 6455): the payload of every frame,
// masked or not, also across the frames of a message. Frames keep their lengths. It holds back only
// what could be the beginning of hidden text, and only until the next control frame, which may come
// in the middle of a message and must be answered.
type frameRedactor struct {
	io.Closer
	// in is the server's side of the stream.
	in         *bufio.Reader
	redactions []redaction

	remaining uint64 // bytes of the payload of the frame that is being read
	mask      []byte // its mask, all zeros without one
	offset    int    // of the next byte in the payload, which chooses the mask's byte
	final     bool   // it is the last frame of its message, or a control frame
	inMessage bool   // a message has begun and not ended

	queue []byte // to be read, in order
	// held is the payload in the queue that may still change, unmasked; places has, for each byte
	// of it, where it is.
	held   []byte
	places []maskedByte
	// err is what ended the stream; Read returns it once the queue is empty.
	err error
}

// maskedByte is the index of a byte of payload in the queue, and its mask.
type maskedByte struct {
	at   int
	mask byte
}

// newFrameRedactor redacts body, from which it reads ahead. Close closes body.
func newFrameRedactor(body io.ReadCloser, redactions []redaction) *frameRedactor {
	return &frameRedactor{Closer: body, in: bufio.NewReaderSize(body, spliceBuffer), redactions: redactions}
}

// Read returns what cannot change any more. Before it returns an error, which may be that of an
// invalid frame, it returns the rest of the queue.
func (f *frameRedactor) Read(p []byte) (int, error) {
	for f.ready() == 0 {
		if f.err != nil {
			return 0, f.err
		}
		if f.err = f.step(); f.err != nil {
			f.release() // what is held back is only the beginning of a secret
		}
	}
	n := copy(p, f.queue[:f.ready()])
	f.queue = f.queue[:copy(f.queue, f.queue[n:])]
	for i := range f.places {
		f.places[i].at -= n
	}
	return n, nil
}

// ready is how many bytes of the queue cannot change any more.
func (f *frameRedactor) ready() int {
	if len(f.places) > 0 {
		return f.places[0].at
	}
	return len(f.queue)
}

func (f *frameRedactor) release() { f.hold(0) }

// hold keeps back only the last n bytes.
func (f *frameRedactor) hold(n int) {
	f.held = f.held[:copy(f.held, f.held[len(f.held)-n:])]
	f.places = f.places[:copy(f.places, f.places[len(f.places)-n:])]
}

// step reads the header of a frame, or some of its payload. At the end of a message it releases
// what is held back: a secret does not span messages.
func (f *frameRedactor) step() error {
	if f.remaining == 0 {
		if err := f.header(); err != nil {
			return err
		}
	} else if err := f.payload(); err != nil {
		return err
	}
	if f.remaining == 0 && f.final {
		f.release()
	}
	return nil
}

// errInvalidFrame ends the stream: after an invalid frame, text in it could not be found.
var errInvalidFrame = errors.New("the server sent an invalid WebSocket frame, so secrets in it could not be found")

// header reads the header of the next frame, which passes unchanged.
func (f *frameRedactor) header() error {
	h, raw, err := readFrameHeader(f.in)
	f.queue = append(f.queue, raw...)
	if err == nil {
		f.inMessage, err = h.check(f.inMessage)
	}
	if err != nil {
		return err
	}
	if h.isControl() {
		f.release()
	}
	f.final, f.remaining, f.mask, f.offset = h.fin, h.length, h.mask[:], 0
	return nil
}

// payload reads the available payload and hides secrets in it.
func (f *frameRedactor) payload() error {
	b := make([]byte, min(f.remaining, 4<<10))
	n, err := f.in.Read(b)
	for _, c := range b[:n] {
		mask := f.mask[f.offset%4]
		f.held, f.places = append(f.held, c^mask), append(f.places, maskedByte{len(f.queue), mask})
		f.queue = append(f.queue, c)
		f.offset++
	}
	f.remaining -= uint64(n)
	redactAll(f.held, f.redactions)
	for i, s := range f.places {
		f.queue[s.at] = f.held[i] ^ s.mask
	}
	f.hold(partialMatch(f.held, f.redactions))
	return err
}
