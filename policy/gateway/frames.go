package gateway

import (
	"bufio"
	"errors"
	"io"
)

// frames redacts what a server sends in a WebSocket (RFC 6455): the payload of every frame, masked
// or not, also across the frames of a message. Frames keep their lengths. It holds back only what
// could be the beginning of hidden text, and only until the next control frame, which may come in
// the middle of a message and must be answered.
type frames struct {
	io.Closer
	// in is the server's side of the stream.
	in   *bufio.Reader
	hide []hidden

	left    uint64 // of the payload of the frame that is being read
	key     []byte // its mask, all zeros without one
	at      int    // how far in it the mask is
	last    bool   // it is the last frame of its message, or a control frame
	message bool   // a message has begun and not ended

	queue []byte // to be read, in order
	said  []byte // payload in the queue that may still change, unmasked
	where []spot // where each byte of it is
	// err is what ended the stream; Read returns it once the queue is empty.
	err error
}

// spot is the place of a byte of payload in the queue, and its mask.
type spot struct {
	at  int
	key byte
}

// newFrames redacts body, from which it reads ahead. Close closes body.
func newFrames(body io.ReadCloser, hide []hidden) *frames {
	return &frames{Closer: body, in: bufio.NewReaderSize(body, spliceBuffer), hide: hide}
}

// Read returns what cannot change any more. Before it returns an error, which may be that of an
// invalid frame, it returns the rest of the queue.
func (f *frames) Read(p []byte) (int, error) {
	for f.safe() == 0 {
		if f.err != nil {
			return 0, f.err
		}
		if f.err = f.step(); f.err != nil {
			f.release() // what is held back is not hidden text as a whole
		}
	}
	n := copy(p, f.queue[:f.safe()])
	f.queue = f.queue[:copy(f.queue, f.queue[n:])]
	for i := range f.where {
		f.where[i].at -= n
	}
	return n, nil
}

// safe is how many bytes of the queue cannot change any more.
func (f *frames) safe() int {
	if len(f.where) > 0 {
		return f.where[0].at
	}
	return len(f.queue)
}

// release stops holding anything back.
func (f *frames) release() { f.hold(0) }

// hold keeps back only the last n bytes.
func (f *frames) hold(n int) {
	f.said = f.said[:copy(f.said, f.said[len(f.said)-n:])]
	f.where = f.where[:copy(f.where, f.where[len(f.where)-n:])]
}

// step reads the head of a frame, or some of its payload.
func (f *frames) step() error {
	if f.left == 0 {
		if err := f.head(); err != nil {
			return err
		}
	} else if err := f.payload(); err != nil {
		return err
	}
	if f.left == 0 && f.last {
		f.release()
	}
	return nil
}

// errNoFrame ends the stream: after an invalid frame, text in it could not be found.
var errNoFrame = errors.New("the server says what is no frame of a WebSocket, so secrets in it could not be found")

// head reads the head of the next frame, which passes unchanged.
func (f *frames) head() error {
	h, raw, err := readFrameHead(f.in)
	f.queue = append(f.queue, raw...)
	if err == nil {
		f.message, err = h.follow(f.message)
	}
	if err != nil {
		return err
	}
	if h.control() {
		f.release()
	}
	f.last, f.left, f.key, f.at = h.fin, h.length, h.mask[:], 0
	return nil
}

// payload reads the available payload and hides secrets in it.
func (f *frames) payload() error {
	b := make([]byte, min(f.left, 4<<10))
	n, err := f.in.Read(b)
	for _, c := range b[:n] {
		key := f.key[f.at%4]
		f.said, f.where = append(f.said, c^key), append(f.where, spot{len(f.queue), key})
		f.queue = append(f.queue, c)
		f.at++
	}
	f.left -= uint64(n)
	conceal(f.said, f.hide)
	for i, s := range f.where {
		f.queue[s.at] = f.said[i] ^ s.key
	}
	f.hold(pending(f.said, f.hide))
	return err
}
