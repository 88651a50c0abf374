package gateway

import (
	"bytes"
	"io"
)

// redactor replaces text in a stream by other text of the same length. It holds back only what
// could be the beginning of such text, so that the events of a long stream pass at once.
type redactor struct {
	io.ReadCloser
	// redactions are the texts to replace.
	redactions []redaction
	onEnd      func() // called when the stream has ended

	buf   []byte // read; the first safe bytes are ready
	ready int
	err   error
}

// Read returns bytes that cannot change any more, and waits only if there are none. An error comes
// after everything that was read before it.
func (r *redactor) Read(p []byte) (int, error) {
	for r.ready == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill(max(len(p), 4<<10))
	}
	n := copy(p, r.buf[:r.ready])
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
	r.ready -= n
	return n, nil
}

// fill reads at most limit bytes, once, and finds how much of the buffer cannot change any more. At
// the end of the stream that is all of it, since the beginning of a secret is none.
func (r *redactor) fill(size int) {
	have := len(r.buf)
	r.buf = append(r.buf, make([]byte, size)...)
	n, err := r.ReadCloser.Read(r.buf[have:])
	r.buf = r.buf[:have+n]
	redactAll(r.buf, r.redactions)
	r.ready = len(r.buf)
	if err != nil {
		r.err = err
		r.onEnd()
		return
	}
	r.ready -= partialMatch(r.buf, r.redactions)
}

// redactAll replaces secrets in place. It does not look again at what it replaced.
func redactAll(buf []byte, redactions []redaction) {
	for _, h := range redactions {
		for i := 0; ; {
			at := bytes.Index(buf[i:], []byte(h.text))
			if at < 0 {
				break
			}
			i += at + copy(buf[i+at:], h.mask)
		}
	}
}

// partialMatch is how many bytes at the end of the buffer may be the beginning of a secret: the
// longest prefix of one that fits. It is never a whole secret, because redactAll has replaced
// those.
func partialMatch(buf []byte, redactions []redaction) int {
	longest := 0
	for _, h := range redactions {
		for n := min(len(h.text)-1, len(buf)); n > longest; n-- {
			if bytes.HasSuffix(buf, []byte(h.text[:n])) {
				longest = n
				break
			}
		}
	}
	return longest
}
