package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Config says who a node is and where it listens. All but Learned is required.
type Config struct {
	Key    ed25519.PrivateKey // the identity
	Listen string             // UDP address; port 0 is any
	Log    *slog.Logger
	// Learned is called when a peer has an address that Addresses did not have. It must not block or call the
	// node. It may be nil.
	Learned func()
}

// Times and bounds of connections. Gossip notices within seconds that a peer is gone, so
// idleTimeout covers only what gossip does not see. The side that opens one may ask for lineTimeout.
const (
	idleTimeout        = 30 * time.Second
	lineTimeout        = 150 * time.Second
	handshakeTimeout   = 5 * time.Second
	expiryPeriod       = 5 * time.Second // how often memberships are looked at that expire
	maxConnsPerService = 16              // connections that one peer may open to one service
	maxStreams         = 256
	unvalidatedRate    = 50 // new connections a second before addresses have to be proven
)

// Node is one peer's end of the mesh. Its methods may be called concurrently. tasks has the
// goroutines that accept connections, end expired memberships, and serve.
type Node struct {
	cfg  Config
	self identity.PeerID
	// cert is what every peer is shown; it contains only the key.
	cert      tls.Certificate
	transport *quic.Transport
	socket    *net.UDPConn
	listener  *quic.Listener

	ctx      context.Context // done when Close begins
	stop     context.CancelFunc
	closed   func() error // close, once
	tasks    sync.WaitGroup
	counters Counters
	// heard has, by identity.PeerID, the time.Time of the last datagram of each peer. It is written
	// for each datagram, so mu does not guard it.
	heard sync.Map

	// mu guards the fields below. It is not held while a connection is closed or a handler runs.
	mu sync.Mutex
	// list is the newest member list; the zero one admits nobody.
	list identity.List
	// book has the possible addresses of peers.
	book     addressBook
	handlers map[Service]Handler
	guests   func(Service) Handler // nil: no guests
	// conns has the open connections of both directions, for Admit and Close to end.
	conns map[*Conn]bool
}

// Handler serves one connection that a peer opened. The connection and ctx end when it returns.
type Handler func(ctx context.Context, c *Conn)

// Counters count what a node did since it started, for people who want to know why a machine cannot
// be reached.
type Counters struct {
	Refused   atomic.Uint64 // handshakes with peers that are no members
	Accepted  atomic.Uint64 // connections that peers opened
	Dialled   atomic.Uint64 // connections that we opened
	Failed    atomic.Uint64 // dials that nobody answered as they should
	Closed    atomic.Uint64 // connections that ended because the list does not admit the peer any more
	OverLimit atomic.Uint64 // connections above what one peer may open to a service
}

// Listen opens the socket. The node admits nobody until Admit is called. Unavailable wraps the
// system's error, such as syscall.EADDRINUSE when the port is taken. The caller closes the node.
func Listen(cfg Config) (*Node, error) {
	address, err := net.ResolveUDPAddr("udp", cfg.Listen)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "mesh: %q is not an address to listen on: %w", cfg.Listen, err)
	}
	n := &Node{
		cfg: cfg, self: identity.PeerOf(cfg.Key.Public().(ed25519.PublicKey)), book: newAddressBook(cfg.Learned),
		handlers: map[Service]Handler{}, conns: map[*Conn]bool{},
	}
	if n.cert, err = certificate(cfg.Key); err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mesh: make a certificate: %w", err)
	}
	reset, err := resetKey(cfg.Key)
	if err != nil {
		return nil, err
	}
	if n.socket, err = net.ListenUDP("udp", address); err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "mesh: cannot listen on UDP %s: %w", cfg.Listen, err)
	}
	limit := rate.NewLimiter(unvalidatedRate, unvalidatedRate)
	n.transport = &quic.Transport{
		Conn: n.socket, ConnectionIDLength: 8, StatelessResetKey: reset,
		DisableVersionNegotiationPackets: true, // who sends nonsense gets no answer
		VerifySourceAddress:              func(net.Addr) bool { return !limit.Allow() },
	}
	if n.listener, err = n.transport.Listen(n.serverTLS(), quicConfig(lineTimeout)); err != nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mesh: %w", errors.Join(err, n.socket.Close()))
	}
	n.closed = sync.OnceValue(n.close)
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.tasks.Go(n.accept)
	n.tasks.Go(n.expire)
	return n, nil
}

// quicConfig is used on both sides of a connection, of which the shorter time holds.
func quicConfig(idle time.Duration) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: handshakeTimeout,
		MaxIdleTimeout:       idle,
		MaxIncomingStreams:   maxStreams,
		// The server's greeting is the only unidirectional stream.
		MaxIncomingUniStreams: 1,
		// The minimum that QUIC allows, so that a path with an MTU of 1280 works; larger sizes are
		// probed.
		InitialPacketSize: 1200,
		EnableDatagrams:   true,
	}
}

// Self is this node's own PeerID.
func (n *Node) Self() identity.PeerID { return n.self }

// Addr is where the node listens; the host is unspecified when it listens on all addresses.
func (n *Node) Addr() netip.AddrPort { return addrPort(n.socket.LocalAddr()) }

// Handle sets the handler of a service, in place of an earlier one; nil removes it.
func (n *Node) Handle(s Service, h Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.handlers[s] = h; h == nil {
		delete(n.handlers, s)
	}
}

// HandleGuests sets the function that returns the handler of a GuestService; it returns nil to
// refuse the handshake.
func (n *Node) HandleGuests(invited func(Service) Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.guests = invited
}

// Admit makes a list the newest one. Before it returns, it closes the connections of peers that the
// list does not admit.
func (n *Node) Admit(list identity.List) {
	n.mu.Lock()
	n.list = list
	n.mu.Unlock()
	n.closeNonMembers()
}

// closeNonMembers ends connections to peers that are no members now, and forgets their addresses.
// Connections of guests have their own end.
func (n *Node) closeNonMembers() {
	now := time.Now()
	n.mu.Lock()
	var gone []*Conn
	for c := range n.conns {
		if !c.service.guest() && !n.list.Admits(c.peer, now) {
			gone = append(gone, c)
		}
	}
	n.book.keep(func(id identity.PeerID) bool { return n.list.Admits(id, now) })
	n.mu.Unlock()
	n.counters.Closed.Add(uint64(len(gone)))
	for _, c := range gone {
		n.cfg.Log.Info("mesh: connection closed, not a member any more", "peer", c.peer.Short(), "service", c.service)
		c.end(closeNonMember)
	}
}

// expire ends connections of members whose membership has expired.
func (n *Node) expire() {
	tick := time.NewTicker(expiryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.closeNonMembers()
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *Node) admits(id identity.PeerID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list.Admits(id, time.Now())
}

// Packets counts the packets that a peer has sent in the open connections. It includes QUIC's own:
// a machine that is too busy to answer still acknowledges what it receives.
func (n *Node) Packets(id identity.PeerID) (sum uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.peer == id {
			sum += c.PacketsReceived()
		}
	}
	return sum
}

// LastHeard returns when the last datagram of a peer came. Gossip sends one a second to some peer:
// in a small team, each peer gets one every few seconds.
func (n *Node) LastHeard(id identity.PeerID) time.Time {
	at, _ := n.heard.Load(id)
	t, _ := at.(time.Time)
	return t
}

// Counters returns the live counters.
func (n *Node) Counters() *Counters { return &n.counters }

// Close ends all connections, waits for the handlers, and frees the port. It may be called more
// than once.
func (n *Node) Close() error { return n.closed() }

func (n *Node) close() error {
	n.stop()
	n.mu.Lock()
	open := slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	for _, c := range open {
		c.end(closeDone)
	}
	err := n.listener.Close()
	n.tasks.Wait()
	return errors.Join(err, n.transport.Close(), n.socket.Close())
}
