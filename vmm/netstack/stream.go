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
func (s *stream) establish() error {
	s.answer.Do(func() {
		defer close(s.ready)
		s.mu.Lock()
		aborted := s.aborted
		s.mu.Unlock()
		if aborted {
			s.refuse(net.ErrClosed)
			return
		}
		ep, err := s.req.CreateEndpoint(&s.queue)
		if err != nil {
			s.refuse(errNoHandshake)
			return
		}
		s.req.Complete(false)
		s.established(ep)
	})
	<-s.ready
	return s.err
}

// refuse answers the SYN with a reset. Callers are in answer.
func (s *stream) refuse(why error) {
	s.err = why
	s.req.Complete(true)
}

// connected tells whether there is a connection, and refuses one whose SYN is not answered.
func (s *stream) connected() bool {
	s.answer.Do(func() {
		defer close(s.ready)
		s.refuse(net.ErrClosed)
	})
	<-s.ready
	return s.conn != nil
}

// established sets buffers, keep-alive, which notices guests that vanish, and the deadlines that
// were set before. It resets the connection if reset was called meanwhile.
func (s *stream) established(ep tcpip.Endpoint) {
	options := ep.SocketOptions()
	options.SetSendBufferSize(int64(s.share), true)
	options.SetReceiveBufferSize(int64(s.share), true)
	options.SetKeepAlive(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ep, s.conn = ep, gonet.NewTCPConn(&s.queue, ep)
	_ = s.conn.SetReadDeadline(s.read)
	_ = s.conn.SetWriteDeadline(s.write)
	if s.aborted {
		ep.Abort()
	}
}

// finish ends the connection after the handler has returned err. With an error it refuses or resets
// the connection. Without one it closes it, and waits until the guest has read everything, until
// done is closed, or for linger. It is called once.
func (s *stream) finish(err error, done <-chan struct{}) {
	if !s.connected() {
		return
	}
	if err == nil {
		_ = s.conn.Close()
		if s.drain(done) {
			return
		}
	}
	s.ep.Abort()
}

// drain waits until the guest has read everything and closed its side, and tells whether it has. It
// waits no longer than linger, since the connection keeps its slot. It polls, less and less often,
// as gVisor does not notify of changes of the state. TIME-WAIT counts as closed: it passes by
// itself.
func (s *stream) drain(done <-chan struct{}) bool {
	const maxWait = 250 * time.Millisecond
	end := time.Now().Add(linger)
	for wait := time.Millisecond; time.Now().Before(end); wait = min(2*wait, maxWait) {
		switch tcp.EndpointState(s.ep.State()) {
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
func (s *stream) reset() {
	s.mu.Lock()
	s.aborted = true
	ep := s.ep
	s.mu.Unlock()
	if ep != nil {
		ep.Abort()
	}
}

// Read answers the SYN, if that was not done, and reads what the guest sent.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.establish(); err != nil {
		return 0, s.opError("read", err)
	}
	return s.conn.Read(p)
}

// Write answers the SYN, if that was not done, and sends.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.establish(); err != nil {
		return 0, s.opError("write", err)
	}
	return s.conn.Write(p)
}

func (s *stream) CloseWrite() error {
	if err := s.establish(); err != nil {
		return s.opError("close", err)
	}
	return s.conn.CloseWrite()
}

// Close ends the connection for all its users. finish does the rest when the handler has returned.
func (s *stream) Close() error {
	if !s.connected() {
		return nil
	}
	return s.conn.Close()
}

// opError makes an error like those of package net.
func (s *stream) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

// LocalAddr is the address that the guest connected to, RemoteAddr the guest's.
func (s *stream) LocalAddr() net.Addr  { return tcpAddr(s.id.LocalAddress, s.id.LocalPort) }
func (s *stream) RemoteAddr() net.Addr { return tcpAddr(s.id.RemoteAddress, s.id.RemotePort) }

func tcpAddr(a tcpip.Address, port uint16) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(a.As4()), port))
}

// SetReadDeadline may be called before the SYN is answered. It does not bound the answer itself.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read = t; s.conn != nil {
		return s.conn.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline is SetReadDeadline for writes.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.write = t; s.conn != nil {
		return s.conn.SetWriteDeadline(t)
	}
	return nil
}

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
