package gateway

import (
	"cmp"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Memory of one direction of one connection, in bytes. One that fills what it has carries much at
// once, and borrows more while it does: each read and write is a trip through two network stacks.
// All boxes of one process share the pools; there is one.
const (
	spliceBuffer = 32 << 10
	bulkBuffer   = 256 << 10
	mostBulk     = 64 // of the latter at once, in all directions there are
)

var (
	buffers = buffersOf(spliceBuffer)
	bulk    = boundedPool{pool: buffersOf(bulkBuffer), most: mostBulk}
)

func buffersOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// lender lends a few buffers, most of them at once.
type boundedPool struct {
	pool *sync.Pool
	most int64
	// lent counts those that are out.
	lent atomic.Int64
}

// borrow gives nil when all are lent.
func (l *boundedPool) get() *[]byte {
	if l.lent.Add(1) > l.most {
		l.lent.Add(-1)
		return nil
	}
	return l.pool.Get().(*[]byte)
}

// giveBack takes a buffer that borrow gave.
func (l *boundedPool) put(b *[]byte) {
	l.pool.Put(b)
	l.lent.Add(-1)
}

// traffic counts the bytes of a flow: those from the box, and those to it.
type traffic struct{ sent, got atomic.Int64 }

// splice carries bytes both ways until both directions have ended, each half-closed as the other
// side did it. To end it, close the connections. The error is the first one: both say the same.
func splice(box, away net.Conn, t *traffic) error {
	back := make(chan error, 1)
	go func() { back <- copyOneWay(box, away, &t.got) }()
	return cmp.Or(copyOneWay(away, box, &t.sent), <-back)
}

// pour copies one direction and passes its end on. A direction that failed ends the other too.
func copyOneWay(to, from net.Conn, count *atomic.Int64) error {
	err := copyBuffered(countingWriter{to, count}, from)
	if err != nil {
		_ = to.Close()
		_ = from.Close()
		return err
	}
	return closeWrite(to)
}

// carry copies until from ends, and keeps large buffers no longer than there is much to carry.
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

// countingWriter and countingReader add what passes to one of the counts of a traffic, as it
// passes: meters read them while the flow goes on.
type countingWriter struct {
	io.Writer
	n *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n.Add(int64(n))
	return n, err
}

type countingReader struct {
	io.ReadCloser
	n *atomic.Int64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.n.Add(int64(n))
	return n, err
}
