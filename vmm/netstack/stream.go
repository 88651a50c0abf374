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

// stream is a Conn that answers the guest's SYN at its first Read, Write or CloseWrite. So if a
// handler dials first and fails, the guest sees its connection refused. The methods may be called
// from any goroutine. Exactly one of establish, finish and Close answers the SYN, under answer. It
// sets the fields from queue to err before it closes ready; then they never change.
type stream struct {
	id    stack.TransportEndpointID
	share int                   // bytes of each buffer
	req   *tcp.ForwarderRequest // the SYN

	answer sync.Once      // of the SYN
	ready  chan struct{}  // closed when the SYN was answered or never will be
	queue  waiter.Queue   // of ep
	conn   *gonet.TCPConn // nil if the guest did not finish the handshake
	ep     tcpip.Endpoint // of conn
	err    error          // why conn is nil

	mu          sync.Mutex
	read, write time.Time // deadlines that were set before the answer
	aborted     bool
}

// errNoHandshake is the error if the guest did not finish the handshake.
var errNoHandshake = errors.New("the box has given up the connection")

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
			c.refuse(errNoHandshake)
			return
		}
		c.req.Complete(false)
		c.established(ep)
	})
	<-c.ready
	return c.err
}

// refuse answers the SYN with a reset. Callers are in answer.
func (c *stream) refuse(why error) {
	c.err = why
	c.req.Complete(true)
}

// connected tells whether there is a connection. If the SYN was not answered yet, connected refuses
// it.
func (c *stream) connected() bool {
	c.answer.Do(func() {
		defer close(c.ready)
		c.refuse(net.ErrClosed)
	})
	<-c.ready
	return c.conn != nil
}

// established sets buffers, keep-alive, which notices guests that vanish, and the deadlines that
// were set before. It resets the connection if reset was called meanwhile.
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

// finish ends the connection after the handler has returned err. With an error it refuses or resets
// the connection. Without one it closes it, and waits until the guest has read everything, until
// done is closed, or for linger. It is called once.
func (c *stream) finish(err error, done <-chan struct{}) {
	if !c.connected() {
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

// drain waits until the guest has read everything and closed its side, and tells whether it has. It
// waits no longer than linger, since the connection keeps its slot. It polls, less and less often,
// as gVisor does not notify of changes of the state. TIME-WAIT counts as closed: it passes by
// itself.
func (c *stream) drain(done <-chan struct{}) bool {
	const maxWait = 250 * time.Millisecond
	end := time.Now().Add(linger)
	for wait := time.Millisecond; time.Now().Before(end); wait = min(2*wait, maxWait) {
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

// reset resets the connection. If the SYN was not answered yet, it will be refused.
func (c *stream) reset() {
	c.mu.Lock()
	c.aborted = true
	ep := c.ep
	c.mu.Unlock()
	if ep != nil {
		ep.Abort()
	}
}

// Read answers the SYN, if that was not done, and reads what the guest sent.
func (c *stream) Read(p []byte) (int, error) {
	if err := c.establish(); err != nil {
		return 0, c.opError("read", err)
	}
	return c.conn.Read(p)
}

// Write answers the SYN, if that was not done, and sends.
func (c *stream) Write(p []byte) (int, error) {
	if err := c.establish(); err != nil {
		return 0, c.opError("write", err)
	}
	return c.conn.Write(p)
}

func (c *stream) CloseWrite() error {
	if err := c.establish(); err != nil {
		return c.opError("close", err)
	}
	return c.conn.CloseWrite()
}

// Close ends the connection for all its users. finish does the rest when the handler has returned.
func (c *stream) Close() error {
	if !c.connected() {
		return nil
	}
	return c.conn.Close()
}

// opError makes an error like those of package net.
func (c *stream) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr is the address that the guest connected to, RemoteAddr the guest's.
func (c *stream) LocalAddr() net.Addr  { return tcpAddr(c.id.LocalAddress, c.id.LocalPort) }
func (c *stream) RemoteAddr() net.Addr { return tcpAddr(c.id.RemoteAddress, c.id.RemotePort) }

func tcpAddr(a tcpip.Address, port uint16) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(a.As4()), port))
}

// SetReadDeadline may be called before the SYN is answered. It does not bound the answer itself.
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
