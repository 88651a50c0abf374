package rootfs

import (
	"bytes"
	"fmt"
	"io"
)

// Bytes is content in memory.
type Bytes []byte

// Open implements Content.
func (b Bytes) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }

// Section is content that is one range of a file. From must live as long as the content is read.
type Section struct {
	From         io.ReaderAt
	Offset, Size int64 // in bytes
}

// Open implements Content.
func (s Section) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.From, s.Offset, s.Size)), nil
}

// ReadAll reads a regular file of at most max bytes, for the small ones that code here parses, such
// as /etc/passwd. An empty file is nil.
func (i *Inode) ReadAll(max int64) ([]byte, error) {
	switch {
	case i.Type() != TypeRegular:
		return nil, fmt.Errorf("not a regular file")
	case i.Size > max:
		return nil, fmt.Errorf("%d bytes are more than the %d expected", i.Size, max)
	case i.Content == nil:
		return nil, nil
	}
	r, err := i.Content.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, i.Size)
	_, err = io.ReadFull(r, b)
	return b, err
}
