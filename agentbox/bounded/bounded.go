// Package bounded has readers and writers with a bound, for streams of boxes and programs whose
// length nobody knows. They keep no more than their bounds.
//
// Head is for text of which the beginning is enough, such as a complaint: it takes everything and
// drops the rest. LimitedWriter is for data of which a part is worthless: the write beyond the
// bound fails, which ends the program that writes. ReadLine bounds a line, and ReadAhead what is
// read before anybody asks. For text whose end matters there is vmm/console.Tail.
package bounded

import (
	"bufio"
	"errors"
	"io"
)

// Head passes on the first Remaining bytes that are written to it and drops the rest, without an
// error to the writer.
type Head struct {
	W         io.Writer
	Remaining int // bytes; at 0 more may have been dropped
}

// Write implements io.Writer. It fails as W does.
func (h *Head) Write(p []byte) (int, error) {
	n := min(len(p), h.Remaining)
	h.Remaining -= n
	if n > 0 {
		if _, err := h.W.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// LimitedWriter passes on Remaining bytes and fails with Err beyond them.
type LimitedWriter struct {
	W         io.Writer
	Remaining int64 // bytes
	Err       error
}

// Write implements io.Writer. It passes on as much as fits.
func (l *LimitedWriter) Write(p []byte) (int, error) {
	fits := p[:min(int64(len(p)), l.Remaining)]
	n, err := l.W.Write(fits)
	l.Remaining -= int64(n)
	if err == nil && len(fits) < len(p) {
		err = l.Err
	}
	return n, err
}

// ReadLine reads a line of at most limit bytes, without its newline. A longer line is ErrLong; one
// without a newline is io.EOF.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit+1 {
			return nil, ErrLong
		}
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// ErrLong is the error for a line that exceeds its bound.
var ErrLong = errors.New("a line is too long")
