// Package bounded has writers for what a box or a program prints, and a reader of its lines, of which
// nobody knows how much that will be. They keep no more than their bounds.
//
// Head is for text of which the beginning is enough, such as a complaint: the writer goes on as if
// all of it were taken. AtMost is for data of which a part is worth nothing: the write beyond the
// bound fails, and the program that writes is ended by that. vmm/console.Tail is the third kind,
// for text of which the end matters.
package bounded

import (
	"bufio"
	"errors"
	"io"
)

// Head passes on the first Left bytes that are written to it and drops the rest, so the program
// that writes notices nothing.
type Head struct {
	W    io.Writer
	Left int // bytes; at 0 all that is to be had was, and maybe more was dropped
}

// Write implements io.Writer. It fails as W does.
func (h *Head) Write(p []byte) (int, error) {
	n := min(len(p), h.Left)
	h.Left -= n
	if n > 0 {
		if _, err := h.W.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// AtMost passes on Left bytes and refuses what is beyond them with Err.
type AtMost struct {
	W    io.Writer
	Left int64 // bytes
	Err  error
}

// Write implements io.Writer. It passes on as much as fits.
func (a *AtMost) Write(p []byte) (int, error) {
	fits := p[:min(int64(len(p)), a.Left)]
	n, err := a.W.Write(fits)
	a.Left -= int64(n)
	if err == nil && len(fits) < len(p) {
		err = a.Err
	}
	return n, err
}

// ReadLine reads a line, of which at most most bytes may come before its end; ErrLong otherwise. The
// end is not in the result. io.EOF is of one whose end is not there.
func ReadLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > most+1 {
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

// ErrLong is of a line that is longer than it may be.
var ErrLong = errors.New("a line is too long")
