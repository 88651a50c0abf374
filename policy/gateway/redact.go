package gateway

import (
	"bytes"
	"io"
)

// redactor replaces text in a stream by text of the same length. It holds back only what could be the beginning of such
// text, so events of a long stream come through at once.
type redactor struct {
	io.ReadCloser
	hide []hidden
	end  func() // called when the stream has ended

	buf  []byte // read; the first safe bytes are ready
	safe int
	err  error
}

func (r *redactor) Read(p []byte) (int, error) {
	for r.safe == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill(max(len(p), 4<<10))
	}
	n := copy(p, r.buf[:r.safe])
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
	r.safe -= n
	return n, nil
}

// fill reads once and finds how much of the buffer is safe to give.
func (r *redactor) fill(most int) {
	have := len(r.buf)
	r.buf = append(r.buf, make([]byte, most)...)
	n, err := r.ReadCloser.Read(r.buf[have:])
	r.buf = r.buf[:have+n]
	for _, h := range r.hide {
		for i := 0; ; {
			at := bytes.Index(r.buf[i:], []byte(h.text))
			if at < 0 {
				break
			}
			i += at + copy(r.buf[i+at:], h.instead)
		}
	}
	r.safe = len(r.buf)
	if err != nil {
		r.err = err
		r.end()
		return
	}
	r.safe -= r.pending()
}

// pending is how many bytes at the buffer's end may be the beginning of what is hidden.
func (r *redactor) pending() int {
	longest := 0
	for _, h := range r.hide {
		for n := min(len(h.text)-1, len(r.buf)); n > longest; n-- {
			if bytes.HasSuffix(r.buf, []byte(h.text[:n])) {
				longest = n
				break
			}
		}
	}
	return longest
}
