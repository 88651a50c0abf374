package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
)

// Service is a protocol between peers. Its name, which includes its version, is part of the ALPN.
type Service string

// The services of agentbox. A change of a service's messages gets another version, so that
// peers with both versions speak the one they share.
const (
	Roster    Service = "roster-1"    // member lists
	Gossip    Service = "gossip-1"    // who is here
	Catalogue Service = "catalogue-1" // what each peer has
	Blobs     Service = "blobs-1"     // pieces of manifests
	Clock     Service = "clock-1"     // the time, for people
)

// joinPrefix starts the names of guests' services.
const joinPrefix = "join/"

// GuestService is what the holder of an invitation asks for, member or not. id identifies the
// secret without revealing it.
func GuestService(id string) Service { return Service(joinPrefix + id) }

func (s Service) guest() bool { return strings.HasPrefix(string(s), joinPrefix) }

// MaxDatagram is how many bytes SendDatagram takes on every path, including one with an MTU of
// 1280.
const MaxDatagram = 1100

// Codes that end a connection or a stream.
const (
	closeDone      quic.ApplicationErrorCode = 0
	closeNonMember quic.ApplicationErrorCode = 1
	streamAborted  quic.StreamErrorCode      = 1
)

// Conn is an authenticated connection to one peer, for one service. Its methods may be called
// concurrently. Once it has ended, errors have code Conflict if the peer no longer takes us for a
// member, else Unavailable.
type Conn struct {
	node    *Node
	q       *quic.Conn
	peer    identity.PeerID
	service Service
	// incoming: the peer opened it.
	incoming bool
}

// Peer is the peer that the other side proved to be.
func (c *Conn) Peer() identity.PeerID { return c.peer }

// Remote is the other side's present address.
func (c *Conn) Remote() netip.AddrPort { return addrPort(c.q.RemoteAddr()) }

// Binding returns 32 bytes that only the two ends of this connection know (RFC 8446, 7.5).
func (c *Conn) Binding() ([]byte, error) {
	state := c.q.ConnectionState().TLS
	return state.ExportKeyingMaterial("EXPERIMENTAL agentbox join 1", nil, 32)
}

// OpenStream opens a stream. It waits while the other side has as many as it allows. The other side
// learns of a stream when the first byte is written to it.
func (c *Conn) OpenStream(ctx context.Context) (*Stream, error) {
	return c.stream(c.q.OpenStreamSync(ctx))
}

// AcceptStream waits for a stream that the other side opened.
func (c *Conn) AcceptStream(ctx context.Context) (*Stream, error) {
	return c.stream(c.q.AcceptStream(ctx))
}

func (c *Conn) stream(s *quic.Stream, err error) (*Stream, error) {
	if err != nil {
		return nil, c.wrapError(err)
	}
	return &Stream{Stream: s}, nil
}

// SendDatagram sends bytes that may be lost, reordered, or duplicated. It waits only while many
// earlier ones are not sent yet. The bytes may be reused when it returns.
func (c *Conn) SendDatagram(b []byte) error {
	if len(b) > MaxDatagram {
		return agentbox.Errorf(agentbox.Invalid, "a datagram has at most %d bytes, not %d", MaxDatagram, len(b))
	}
	return c.wrapError(c.q.SendDatagram(b))
}

// keepAliveEvery is how often a connection that may say nothing for hours shows that it is alive.
const keepAliveEvery = 10 * time.Second

// KeepAlive keeps a connection until stop is called: the other side may take its time to answer.
func (c *Conn) KeepAlive() (stop func()) {
	ctx, stop := context.WithCancel(c.Context())
	go func() {
		for background.Sleep(ctx, keepAliveEvery) {
			_ = c.SendDatagram([]byte{0})
		}
	}()
	return stop
}

// ReceiveDatagram waits for a datagram, and records its time for LastHeard. Datagrams that nobody
// waits for are dropped once there are some.
func (c *Conn) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := c.q.ReceiveDatagram(ctx)
	if err != nil {
		return nil, c.wrapError(err)
	}
	c.node.heard.Store(c.peer, time.Now())
	return b, nil
}

// wrapError adds the peer to the error of a connection; nil for no error.
func (c *Conn) wrapError(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case endedAsNonMember(err):
		return agentbox.Errorf(agentbox.Conflict, "peer %s does not take this machine for a member any more", c.peer.Short())
	}
	return agentbox.Errorf(agentbox.Unavailable, "peer %s: the connection ended: %w", c.peer.Short(), err)
}

// endedAsNonMember reports whether the other side ended it because we are no member to it.
func endedAsNonMember(err error) bool {
	var closed *quic.ApplicationError
	return errors.As(err, &closed) && closed.Remote && closed.ErrorCode == closeNonMember
}

// PacketsReceived counts the QUIC packets received so far.
func (c *Conn) PacketsReceived() uint64 { return c.q.ConnectionStats().PacketsReceived }

// Context is done when the connection has ended; its cause says why.
func (c *Conn) Context() context.Context { return c.q.Context() }

// Close ends the connection with all its streams. Data that was written but not acknowledged may be
// lost: a side that needs an answer waits for it before it closes.
func (c *Conn) Close() error {
	c.end(closeDone)
	return nil
}

func (c *Conn) end(code quic.ApplicationErrorCode) { _ = c.q.CloseWithError(code, "") }

func (c *Conn) greet() error {
	s, err := c.q.OpenUniStream()
	if err != nil {
		return err
	}
	_, err = s.Write([]byte{greeting})
	return errors.Join(err, s.Close())
}

// Stream is one bidirectional byte stream of a connection. Every stream must be aborted in the end
// (defer it), or it counts against the connection's limit; after Close and reading to io.EOF, that
// does nothing.
type Stream struct {
	*quic.Stream
	ended atomic.Bool // Close was called
}

// Close ends our direction: the other side reads io.EOF after the data. Reading goes on. Closing an
// aborted stream does nothing.
func (s *Stream) Close() error {
	s.ended.Store(true)
	_ = s.Stream.Close()
	return nil
}

// Abort ends both directions at once: reads and writes fail on both sides. Data written before
// Close is still delivered.
func (s *Stream) Abort() {
	s.CancelRead(streamAborted)
	if !s.ended.Load() { // QUIC would take back what was written and is on its way
		s.CancelWrite(streamAborted)
	}
}

// addrPort is a UDP address, with IPv4 unmapped.
func addrPort(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := u.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
