package gateway

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// chunkedReader reads a stream in pieces of given sizes, and calls before each.
type chunkedReader struct {
	from   io.Reader
	sizes  []int
	before func(room int)
}

func (c *chunkedReader) Read(p []byte) (int, error) {
	c.before(len(p))
	if len(c.sizes) == 0 {
		return 0, io.EOF
	}
	n := min(c.sizes[0], len(p))
	if c.sizes[0] -= n; c.sizes[0] == 0 {
		c.sizes = c.sizes[1:]
	}
	return io.ReadFull(c.from, p[:n])
}

// Who carries much has a large buffer, for as long as it does, and bytes arrive as they were
// whatever they are carried in.
func TestBulkBuffers(t *testing.T) {
	var want bytes.Buffer
	sizes := []int{10, spliceBuffer, bulkBuffer, bulkBuffer + 1, spliceBuffer / 2, 3 * bulkBuffer}
	for _, n := range sizes {
		for range n {
			want.WriteByte(byte(rand.Int()))
		}
	}
	var rooms []int
	from := &chunkedReader{from: bytes.NewReader(want.Bytes()), sizes: sizes, before: func(room int) { rooms = append(rooms, room) }}
	var got bytes.Buffer
	if err := copyBuffered(&got, from); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d of %d bytes arrived: %v", got.Len(), want.Len(), err)
	}
	if rooms[1] != spliceBuffer || rooms[2] != bulkBuffer || rooms[6] != spliceBuffer {
		t.Errorf("read into buffers of %v bytes", rooms)
	}
	if lent := bulk.lent.Load(); lent != 0 {
		t.Errorf("%d buffers are still lent", lent)
	}
}

// However many carry much, no more than so many have large buffers; the others go on with small
// ones.
func TestBulkBuffersAreLimited(t *testing.T) {
	started, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
	const carriers = maxBulk + 5
	for range carriers {
		reads := 0
		from := &chunkedReader{from: bytes.NewReader(make([]byte, 2*spliceBuffer)), sizes: []int{spliceBuffer, spliceBuffer}, before: func(int) {
			if reads++; reads == 2 {
				started <- struct{}{}
				<-free
			}
		}}
		go func() { done <- copyBuffered(io.Discard, from) }()
	}
	for range carriers {
		<-started
	}
	if lent := bulk.lent.Load(); lent != maxBulk {
		t.Errorf("%d buffers are lent, not %d", lent, maxBulk)
	}
	close(free)
	for range carriers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if lent := bulk.lent.Load(); lent != 0 {
		t.Errorf("%d buffers are still lent", lent)
	}
}
