package gossip

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// maxStream bounds the bytes of one stream: the state of a team of thousands is below a megabyte.
const maxStream = 4 << 20

// Counters count what the limits did since the node started. All but the first mean somebody else's
// mistake, or an attack.
type Counters struct {
	Oversized  atomic.Uint64 // packets of ours above what a datagram holds
	TooLong    atomic.Uint64 // streams that brought more than 4 MiB
	Overflowed atomic.Uint64 // packets that nobody took in time
	NonMembers atomic.Uint64 // announcements of peers that are no members
	Forged     atomic.Uint64 // announcements that their peer did not sign
}

// transport is memberlist's network on the connections of wire. Addresses are those of virtualAddr;
// resolve returns the member that has one. Packets that memberlist does not take in time are
// dropped, as a system does with UDP. tasks has the dials and the connections that we opened; those
// that peers opened belong to the node.
type transport struct {
	node    *wire.Node
	resolve func(place netip.AddrPort) (identity.PeerID, bool)

	ctx   context.Context
	stop  context.CancelFunc
	tasks background.Group
	// packets and streams are read by memberlist.
	packets chan *memberlist.Packet
	streams chan net.Conn

	// mu guards links.
	mu sync.Mutex
	// links has one for each peer that was ever contacted; they are few.
	links    map[identity.PeerID]*link
	counters *Counters
}

var _ memberlist.Transport = (*transport)(nil)

// newTransport starts to serve peers, before memberlist has started to read.
func newTransport(node *wire.Node, counters *Counters, resolve func(place netip.AddrPort) (identity.PeerID, bool)) *transport {
	t := &transport{
		node: node, counters: counters, resolve: resolve, links: map[identity.PeerID]*link{},
		packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn),
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	node.Handle(wire.Gossip, t.serve)
	return t
}

// link returns that of a peer, made when it is first needed.
func (t *transport) link(id identity.PeerID) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.links[id]
	if l == nil {
		l = &link{t: t, peer: id}
		t.links[id] = l
	}
	return l
}

// dropAll closes all connections, because our address has changed.
func (t *transport) dropAll() {
	t.mu.Lock()
	links := slices.Collect(maps.Values(t.links))
	t.mu.Unlock()
	for _, l := range links {
		l.drop()
	}
}

// serve uses a connection that a peer opened, until it ends. It is the node's handler.
func (t *transport) serve(_ context.Context, c *wire.Conn) {
	l := t.link(c.Peer())
	l.adopt(c)
	t.read(l, c)
}

// read passes on what arrives on a connection until it or the transport ends, then closes it.
func (t *transport) read(l *link, c *wire.Conn) {
	defer c.Close()
	stop := context.AfterFunc(t.ctx, func() { c.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { t.readPackets(l, c) })
	t.acceptStreams(l, c)
	both.Wait()
}

func (t *transport) readPackets(l *link, c *wire.Conn) {
	from := net.UDPAddrFromAddrPort(virtualAddr(l.peer))
	for {
		b, err := c.ReceiveDatagram(c.Context())
		if err != nil {
			return
		}
		if len(b) == 0 {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: b, From: from, Timestamp: time.Now()}:
		default:
			t.counters.Overflowed.Add(1)
		}
	}
}

// acceptStreams passes on the streams of a connection, each when memberlist takes it.
func (t *transport) acceptStreams(l *link, c *wire.Conn) {
	for {
		s, err := c.AcceptStream(c.Context())
		if err != nil {
			return
		}
		select {
		case t.streams <- t.netConn(s, l):
		case <-c.Context().Done():
			s.Abort()
			return
		}
	}
}

// FinalAdvertiseAddr is where memberlist says that we are: our virtual address.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	place := virtualAddr(t.node.Self())
	return place.Addr().AsSlice(), int(place.Port()), nil
}

// WriteTo sends a packet to a member. One that is too long is counted and an error: memberlist
// packs less.
func (t *transport) WriteTo(b []byte, to string) (time.Time, error) {
	id, err := t.find(to)
	if err != nil {
		return time.Time{}, err
	}
	if len(b) > wire.MaxDatagram {
		t.counters.Oversized.Add(1)
		return time.Time{}, agentbox.Errorf(agentbox.Invalid, "a gossip packet of %d bytes, at most %d", len(b), wire.MaxDatagram)
	}
	now := time.Now()
	return now, t.link(id).send(b)
}

// DialTimeout opens a stream to a member.
func (t *transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	id, err := t.find(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	l := t.link(id)
	s, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	return t.netConn(s, l), nil
}

func (t *transport) find(to string) (identity.PeerID, error) {
	if place, err := netip.ParseAddrPort(to); err == nil {
		if id, ok := t.resolve(place); ok {
			return id, nil
		}
	}
	return identity.PeerID{}, agentbox.Errorf(agentbox.NotFound, "%.80q is no member of the team", to)
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *transport) StreamCh() <-chan net.Conn           { return t.streams }

var (
	errClosed = agentbox.Errorf(agentbox.Unavailable, "gossip has ended")
	errGone   = agentbox.Errorf(agentbox.Unavailable, "the connection has just ended")
)

// Shutdown ends the connections and waits for their readers.
func (t *transport) Shutdown() error {
	t.node.Handle(wire.Gossip, nil)
	t.stop()
	t.dropAll()
	t.tasks.Close()
	return nil
}

// streamConn is a stream as memberlist wants one: a net.Conn, which may bring maxStream bytes.
type streamConn struct {
	*wire.Stream
	t      *transport
	left   int64
	remote net.Addr
}

func (t *transport) netConn(s *wire.Stream, l *link) net.Conn {
	return &streamConn{Stream: s, t: t, left: maxStream, remote: net.UDPAddrFromAddrPort(virtualAddr(l.peer))}
}

var errTooLong = errors.New("the peer sends more than a gossip stream may have")

func (s *streamConn) Read(b []byte) (int, error) {
	if s.left <= 0 {
		s.t.counters.TooLong.Add(1)
		return 0, errTooLong
	}
	n, err := s.Stream.Read(b[:min(int64(len(b)), s.left)])
	s.left -= int64(n)
	return n, err
}

// Close ends both directions; what was written is delivered.
func (s *streamConn) Close() error {
	err := s.Stream.Close()
	s.Abort()
	return err
}

func (s *streamConn) LocalAddr() net.Addr {
	return net.UDPAddrFromAddrPort(virtualAddr(s.t.node.Self()))
}
func (s *streamConn) RemoteAddr() net.Addr { return s.remote }
