package rootfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Spool keeps the contents of files that come in a stream, one after another in an unlinked
// temporary file. It is not safe for concurrent use, and neither are its contents.
type Spool struct {
	file   *os.File
	buffer *bufio.Writer
	end    int64
}

// NewSpool makes a spool in dir, which should have room for a whole image. Nothing of it is left
// when it is closed or the process dies.
func NewSpool(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Spool{file: f, buffer: bufio.NewWriterSize(f, 1<<20)}, nil
}

// Add keeps exactly size bytes of r. The content can be read at once. A stream that ends early is
// io.ErrUnexpectedEOF.
func (s *Spool) Add(r io.Reader, size int64) (Content, error) {
	n, err := io.CopyN(s.buffer, r, size)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	c := spooled{s, s.end, n}
	s.end += n // after an error, too: these bytes are in the file
	return c, err
}

// Close frees the space. The contents can no longer be read.
func (s *Spool) Close() error { return s.file.Close() }

// spooled is content in a spool.
type spooled struct {
	spool        *Spool
	offset, size int64
}

func (s spooled) Open() (io.ReadCloser, error) {
	if err := s.spool.buffer.Flush(); err != nil {
		return nil, fmt.Errorf("write temporary file: %w", err)
	}
	return Section{s.spool.file, s.offset, s.size}.Open()
}
