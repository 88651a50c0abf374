package gateway

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// spliceBuffer is the memory of one direction of one connection.
const spliceBuffer = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, spliceBuffer); return &b }}

// traffic counts the bytes of a flow.
type traffic struct{ sent, got atomic.Int64 }

// splice carries bytes both ways until both directions have ended, each half-closed as the other side did it. Whoever
// wants it over closes the connections.
func splice(box, away net.Conn, t *traffic) error {
	back := make(chan error, 1)
	go func() { back <- pour(box, away, &t.got) }()
	return first(pour(away, box, &t.sent), <-back)
}

// pour copies one direction and passes its end on. A direction that failed ends the other too.
func pour(to, from net.Conn, count *atomic.Int64) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	// Plain reads and writes: what io.CopyBuffer prefers to its buffer would not count as it goes.
	_, err := io.CopyBuffer(writerOnly{countingWriter{to, count}}, readerOnly{from}, *b)
	if err != nil {
		_ = to.Close()
		_ = from.Close()
		return err
	}
	return closeWrite(to)
}

type writerOnly struct{ io.Writer }
type readerOnly struct{ io.Reader }

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

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
