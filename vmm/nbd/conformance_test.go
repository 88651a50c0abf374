package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"agentbox/vmm"
	"agentbox/vmm/vmmtest"
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
func (m *concurrentClient) read(p []byte, off int64) error {
	for len(p) > maxRead {
		if err := m.readOne(p[:maxRead], off); err != nil {
			return err
		}
		p, off = p[maxRead:], off+maxRead
	}
	return m.readOne(p, off)
}

func (m *concurrentClient) readOne(p []byte, off int64) error {
	w := &pendingRead{p: p, done: make(chan error, 1)}
	m.mu.Lock()
	m.cookie++
	cookie := m.cookie
	m.waiting[cookie] = w
	err := m.err
	m.mu.Unlock()
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(nil, magicRequest)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, cmdRead)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, uint64(off))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	m.sending.Lock()
	_, err = m.conn.Write(b)
	m.sending.Unlock()
	if err != nil {
		return err
	}
	return <-w.done
}

// pump gives answers to those who wait, and the end of the connection to all who still do.
func (m *concurrentClient) pump() {
	err := m.answers()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	for _, w := range m.waiting {
		w.done <- err
	}
}

func (m *concurrentClient) answers() error {
	head := make([]byte, answerSize)
	for {
		if _, err := io.ReadFull(m.conn, head); err != nil {
			return err
		}
		cookie := binary.BigEndian.Uint64(head[8:])
		m.mu.Lock()
		w := m.waiting[cookie]
		delete(m.waiting, cookie)
		m.mu.Unlock()
		var err error
		if code := binary.BigEndian.Uint32(head[4:]); code != 0 {
			err = errors.New("the server says no")
		} else if _, failed := io.ReadFull(m.conn, w.p); failed != nil {
			w.done <- failed
			return failed
		}
		w.done <- err
	}
}
