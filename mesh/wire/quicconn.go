package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Codes by which a connection or a stream ends.
const (
	closeDone     quic.ApplicationErrorCode = 0
	closeStranger quic.ApplicationErrorCode = 1
	streamAborted quic.StreamErrorCode      = 1
)

// conn is a Conn over QUIC.
type conn struct {
	node    *Node
	q       *quic.Conn
	peer    identity.PeerID
	service Service
	// guest says that it is by an invitation: the member list does not end it, its handler does.
	guest    bool
	incoming bool
}

var _ Conn = (*conn)(nil)

// newConn makes a Conn of a handshake that is over. It is in nobody's books yet: see register.
func newConn(n *Node, q *quic.Conn, peer identity.PeerID, s Service) *conn {
	return &conn{node: n, q: q, peer: peer, service: s}
}

func (c *conn) Peer() identity.PeerID  { return c.peer }
func (c *conn) Remote() netip.AddrPort { return addrPort(c.q.RemoteAddr()) }

func (c *conn) OpenStream(ctx context.Context) (Stream, error) {
	s, err := c.q.OpenStreamSync(ctx)
	if err != nil {
		return nil, c.failed(err)
	}
	return &stream{Stream: s}, nil
}

func (c *conn) AcceptStream(ctx context.Context) (Stream, error) {
	s, err := c.q.AcceptStream(ctx)
	if err != nil {
		return nil, c.failed(err)
	}
	return &stream{Stream: s}, nil
}

func (c *conn) SendDatagram(b []byte) error {
	if len(b) > MaxDatagram {
		return agentbox.Errorf(agentbox.Invalid, "a datagram has at most %d bytes, not %d", MaxDatagram, len(b))
	}
	if err := c.q.SendDatagram(b); err != nil {
		return c.failed(err)
	}
	return nil
}

// ReceiveDatagram notes for Heard that one came.
func (c *conn) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := c.q.ReceiveDatagram(ctx)
	if err != nil {
		return nil, c.failed(err)
	}
	c.node.heard.Store(c.peer, time.Now())
	return b, nil
}

// failed says whose connection it was that failed.
func (c *conn) failed(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return agentbox.Errorf(agentbox.Unavailable, "peer %s: the connection ended: %w", c.peer.Short(), err)
}

func (c *conn) PacketsReceived() uint64 { return c.q.ConnectionStats().PacketsReceived }

func (c *conn) Context() context.Context { return c.q.Context() }

func (c *conn) Close() error {
	c.end(closeDone)
	return nil
}

func (c *conn) end(code quic.ApplicationErrorCode) { _ = c.q.CloseWithError(code, "") }

// greet tells the client that it is admitted.
func (c *conn) greet() error {
	s, err := c.q.OpenUniStream()
	if err != nil {
		return err
	}
	_, err = s.Write([]byte{greeting})
	return errors.Join(err, s.Close())
}

// stream is a Stream over QUIC.
type stream struct {
	*quic.Stream
	ended atomic.Bool // Close was called
}

// Close ends our direction. A stream that was aborted is closed already.
func (s *stream) Close() error {
	s.ended.Store(true)
	_ = s.Stream.Close()
	return nil
}

func (s *stream) Abort() {
	s.CancelRead(streamAborted)
	if !s.ended.Load() { // QUIC would take back what was written and is on its way
		s.CancelWrite(streamAborted)
	}
}

// addrPort is a UDP address, IPv4 as such.
func addrPort(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := u.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
