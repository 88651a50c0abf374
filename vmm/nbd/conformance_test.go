package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
)

func TestConformance(t *testing.T) {
	vmmtest.TestBlocks(t, func(t *testing.T, ctx context.Context, image vmm.Blocks) vmmtest.ReadBlocks {
		ours, theirs := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, theirs, image) }()
		t.Cleanup(func() {
			ours.Close()
			<-served
		})
		c := &client{t, ours, served}
		c.read(18)
		c.begin(int(image.Size()))
		m := &concurrentClient{conn: ours, waiting: map[uint64]*pendingRead{}}
		go m.pump()
		return m.read
	})
}

// concurrentClient lets readers share a connection, as QEMU's do.
type concurrentClient struct {
	conn    net.Conn
	sending sync.Mutex

	mu      sync.Mutex
	cookie  uint64
	waiting map[uint64]*pendingRead
	err     error
}

type pendingRead struct {
	p    []byte
	done chan error
}

// read cuts what is longer than the server has said that it answers, as QEMU does.
func (c *concurrentClient) read(p []byte, off int64) error {
	for len(p) > maxRead {
		if err := c.readOne(p[:maxRead], off); err != nil {
			return err
		}
		p, off = p[maxRead:], off+maxRead
	}
	return c.readOne(p, off)
}

func (c *concurrentClient) readOne(p []byte, off int64) error {
	w := &pendingRead{p: p, done: make(chan error, 1)}
	c.mu.Lock()
	c.cookie++
	cookie := c.cookie
	c.waiting[cookie] = w
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(nil, magicRequest)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, cmdRead)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, uint64(off))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	c.sending.Lock()
	_, err = c.conn.Write(b)
	c.sending.Unlock()
	if err != nil {
		return err
	}
	return <-w.done
}

// pump gives answers to those who wait, and the end of the connection to all who still do.
func (c *concurrentClient) pump() {
	err := c.answers()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, w := range c.waiting {
		w.done <- err
	}
}

func (c *concurrentClient) answers() error {
	head := make([]byte, answerSize)
	for {
		if _, err := io.ReadFull(c.conn, head); err != nil {
			return err
		}
		cookie := binary.BigEndian.Uint64(head[8:])
		c.mu.Lock()
		w := c.waiting[cookie]
		delete(c.waiting, cookie)
		c.mu.Unlock()
		var err error
		if code := binary.BigEndian.Uint32(head[4:]); code != 0 {
			err = errors.New("the server says no")
		} else if _, failed := io.ReadFull(c.conn, w.p); failed != nil {
			w.done <- failed
			return failed
		}
		w.done <- err
	}
}
