package netstack

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// stream is a Conn whose SYN has not been answered before its first use. It is made for a SYN, and
// answers it at the first Read, Write or CloseWrite: so a handler that dials first lets the guest
// see a refusal where there was one. Its methods may be called from any goroutine. answer orders
// everything: exactly one of establish, finish and Close answers the SYN; the fields behind it are
// written before ready is closed and never again.
type stream struct {
	id    stack.TransportEndpointID
	share int // bytes of each buffer

	answer sync.Once             // the SYN's
	ready  chan struct{}         // closed when it was answered or never will be
	req    *tcp.ForwarderRequest // until then
	queue  waiter.Queue          //
	conn   *gonet.TCPConn        // afterwards; nil when the guest did not finish the handshake
	ep     tcpip.Endpoint        // of conn
	err    error                 // why conn is nil

	mu          sync.Mutex
	read, write time.Time // deadlines from before the answer
	aborted     bool
}

// errGone is what a handler gets when the guest did not finish the handshake.
var errGone = errors.New("the box has given up the connection")

// newStream does not answer the SYN yet.
func newStream(r *tcp.ForwarderRequest) *stream {
	return &stream{id: r.ID(), req: r, ready: make(chan struct{})}
}

// establish answers the SYN, once, and waits for the guest to finish the handshake.
func (c *stream) establish() error {
	c.answer.Do(func() {
		defer close(c.ready)
		c.mu.Lock()
		aborted := c.aborted
		c.mu.Unlock()
		if aborted {
			c.refuse(net.ErrClosed)
			return
		}
		ep, err := c.req.CreateEndpoint(&c.queue)
		if err != nil {
			c.refuse(errGone)
			return
		}
		c.req.Complete(false)
		c.established(ep)
	})
	<-c.ready
	return c.err
}

// refuse answers the SYN with a reset, once.
func (c *stream) refuse(why error) {
	c.err = why
	c.req.Complete(true)
}

// begun refuses the connection if its SYN has not been answered, and tells whether there is one.
func (c *stream) begun() bool {
	c.answer.Do(func() {
		defer close(c.ready)
		c.refuse(net.ErrClosed)
	})
	<-c.ready
	return c.conn != nil
}

// established sets buffers, keep-alive and the deadlines of before. Keep-alive finds guests that
// are gone without a word. An abort that came meanwhile is done here.
func (c *stream) established(ep tcpip.Endpoint) {
	options := ep.SocketOptions()
	options.SetSendBufferSize(int64(c.share), true)
	options.SetReceiveBufferSize(int64(c.share), true)
	options.SetKeepAlive(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ep, c.conn = ep, gonet.NewTCPConn(&c.queue, ep)
	_ = c.conn.SetReadDeadline(c.read)
	_ = c.conn.SetWriteDeadline(c.write)
	if c.aborted {
		ep.Abort()
	}
}

// finish ends the connection as err says: refused or reset with one, closed without. It returns
// when nothing of it is left but a state that passes by itself, soon after done is closed at the
// latest. err nil means that the handler's work is done, and what it wrote is still to reach the
// guest. It is called once, when the handler has returned.
func (c *stream) finish(err error, done <-chan struct{}) {
	if !c.begun() {
		return
	}
	if err == nil {
		_ = c.conn.Close()
		if c.drain(done) {
			return
		}
	}
	c.ep.Abort()
}

// drain waits until the guest has read everything and closed its side too, and tells whether it
// has. What is left of a connection counts as one, so it may not stay for ever. gVisor tells no one
// of a state that changes, so it looks again and again, less and less often. TIME-WAIT counts as
// closed: it passes by itself.
func (c *stream) drain(done <-chan struct{}) bool {
	const longest = 250 * time.Millisecond
	end := time.Now().Add(linger)
	for wait := time.Millisecond; time.Now().Before(end); wait = min(2*wait, longest) {
		switch tcp.EndpointState(c.ep.State()) {
		case tcp.StateClose, tcp.StateError, tcp.StateTimeWait:
			return true
		}
		select {
		case <-time.After(wait):
		case <-done:
			return false
		}
	}
	return false
}

// abort resets the connection, from any goroutine. One whose SYN is not answered yet is refused
// when it would be.
func (c *stream) abort() {
	c.mu.Lock()
	c.aborted = true
	ep := c.ep
	c.mu.Unlock()
	if ep != nil {
		ep.Abort()
	}
}

// Read answers the SYN if nobody has, and reads what the guest sent.
func (c *stream) Read(p []byte) (int, error) {
	if err := c.establish(); err != nil {
		return 0, c.failed("read", err)
	}
	return c.conn.Read(p)
}

// Write answers the SYN if nobody has, and sends.
func (c *stream) Write(p []byte) (int, error) {
	if err := c.establish(); err != nil {
		return 0, c.failed("write", err)
	}
	return c.conn.Write(p)
}

func (c *stream) CloseWrite() error {
	if err := c.establish(); err != nil {
		return c.failed("close", err)
	}
	return c.conn.CloseWrite()
}

// Close ends the connection for all who use it; what is left to be done happens when the handler
// has returned.
func (c *stream) Close() error {
	if !c.begun() {
		return nil
	}
	return c.conn.Close()
}

// failed is an error as package net makes them.
func (c *stream) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr is where the guest connected to, RemoteAddr the guest.
func (c *stream) LocalAddr() net.Addr  { return tcpAddr(c.id.LocalAddress, c.id.LocalPort) }
func (c *stream) RemoteAddr() net.Addr { return tcpAddr(c.id.RemoteAddress, c.id.RemotePort) }

func tcpAddr(a tcpip.Address, port uint16) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(a.As4()), port))
}

// SetReadDeadline counts from the connection's beginning even if it is called before the SYN is
// answered. It does not bound that answer itself.
func (c *stream) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read = t; c.conn != nil {
		return c.conn.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline is SetReadDeadline for writes.
func (c *stream) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write = t; c.conn != nil {
		return c.conn.SetWriteDeadline(t)
	}
	return nil
}

func (c *stream) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
