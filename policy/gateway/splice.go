package gateway

import (
	"cmp"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Buffers of one direction of a connection, in bytes. A direction that fills its buffer gets a
// larger one for as long as it does, since each read and write passes through two network stacks.
const (
	spliceBuffer = 32 << 10
	bulkBuffer   = 256 << 10
	maxBulk      = 64 // of the latter at once
)

var (
	buffers = buffersOf(spliceBuffer)
	bulk    = boundedPool{pool: buffersOf(bulkBuffer), limit: maxBulk}
)

func buffersOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// boundedPool is a pool that lends at most limit buffers at a time.
type boundedPool struct {
	pool  *sync.Pool
	limit int64
	// lent counts the buffers in use.
	lent atomic.Int64
}

// get returns nil if all buffers are in use.
func (bp *boundedPool) get() *[]byte {
	if bp.lent.Add(1) > bp.limit {
		bp.lent.Add(-1)
		return nil
	}
	return bp.pool.Get().(*[]byte)
}

func (bp *boundedPool) put(b *[]byte) {
	bp.pool.Put(b)
	bp.lent.Add(-1)
}

// traffic counts the bytes from the box and to it.
type traffic struct{ sent, received atomic.Int64 }

// splice copies in both directions until both have ended, each half-closed as on the other side.
// Closing the connections ends it. It returns the first error.
func splice(box, remote net.Conn, t *traffic) error {
	back := make(chan error, 1)
	go func() { back <- copyOneWay(box, remote, &t.received) }()
	return cmp.Or(copyOneWay(remote, box, &t.sent), <-back)
}

// copyOneWay copies one direction and passes on its end. An error ends the other direction too.
func copyOneWay(to, from net.Conn, count *atomic.Int64) error {
	err := copyBuffered(countingWriter{to, count}, from)
	if err != nil {
		_ = to.Close()
		_ = from.Close()
		return err
	}
	return closeWrite(to)
}

// copyBuffered copies until from ends, with a large buffer only while there is much to copy.
func copyBuffered(to io.Writer, from io.Reader) error {
	small := buffers.Get().(*[]byte)
	defer buffers.Put(small)
	b := small
	defer func() {
		if b != small {
			bulk.put(b)
		}
	}()
	for {
		n, err := from.Read(*b)
		if n > 0 {
			if _, err := to.Write((*b)[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case b == small && n == len(*b):
			if large := bulk.get(); large != nil {
				b = large
			}
		case b != small && n < len(*small):
			bulk.put(b)
			b = small
		}
	}
}

// countingWriter and countingReader count as bytes pass: meters read the counts meanwhile.
type countingWriter struct {
	io.Writer
	n *atomic.Int64
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

type countingReader struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
