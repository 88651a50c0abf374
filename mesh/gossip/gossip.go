package gossip

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Config is what a Gossip needs. All but Changed is required.
type Config struct {
	Node *wire.Node
	Key  ed25519.PrivateKey // of the node
	Log  *slog.Logger
	// Changed is called when a peer came, went, or announces something else: one call at a time,
	// and one call for many simultaneous changes of a peer. It may be nil.
	Changed func(identity.PeerID)
}

// announcePause is also how long an announcement waits for a peer that takes it. leaveTime
// bounds the leave message in Close.
const (
	announcePause = 200 * time.Millisecond // between two announcements
	leaveTime     = 500 * time.Millisecond
)

// Peer is what is known of a member that is here, or was since we started. It signed its Meta
// itself; whether it is here is memberlist's conclusion.
type Peer struct {
	ID     identity.PeerID
	Online bool
	Since  time.Time // when that began, by our clock
	Meta   Meta      // the last one
}

// Gossip is this node's part in finding out who is here. Its methods may be called concurrently.
// tasks are the announcer, the notifier and the seeker, which end with ctx; Close waits for them.
type Gossip struct {
	cfg       Config
	transport *transport
	// members is memberlist's own.
	members  *memberlist.Memberlist
	ctx      context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup
	announce background.Signal // the Meta has changed
	notify   background.Signal // dirty has somebody
	nudge    background.Signal // look for absent peers now

	closed   func() error // close, once
	counters Counters

	// mu guards what follows. memberlist's calls take it while they hold locks of memberlist's own,
	// so memberlist is never called with mu held.
	mu   sync.Mutex
	list identity.List
	// virtual maps virtualAddr to the members on the list.
	virtual map[netip.AddrPort]identity.PeerID
	// meta is what this node announces, signed its encoded form, which memberlist has.
	meta   Meta
	signed []byte
	// peers are the members that were seen since we began.
	peers map[identity.PeerID]*Peer
	// verified has the last valid Meta of each peer.
	verified map[identity.PeerID]string
	// dirty has the peers that changed since the last call of Changed.
	dirty map[identity.PeerID]bool
}

// Start starts gossip with the members of a list. The node knows the addresses. The caller closes
// the Gossip before the node.
func Start(cfg Config, list identity.List) (*Gossip, error) {
	g := &Gossip{
		cfg: cfg, announce: background.NewSignal(), notify: background.NewSignal(), nudge: background.NewSignal(),
		peers: map[identity.PeerID]*Peer{}, verified: map[identity.PeerID]string{}, dirty: map[identity.PeerID]bool{},
	}
	g.closed = sync.OnceValue(g.close)
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.Admit(list)
	g.meta.Addresses = listenAddresses(cfg.Node.Addr())
	if err := g.sign(); err != nil {
		return nil, err
	}
	g.transport = newTransport(cfg.Node, &g.counters, g.memberAt)
	var err error
	if g.members, err = memberlist.Create(g.config()); err != nil {
		_ = g.transport.Shutdown()
		return nil, agentbox.Errorf(agentbox.Internal, "mesh: start gossip: %w", err)
	}
	g.tasks.Go(g.announcer)
	g.tasks.Go(g.notifier)
	g.tasks.Go(g.seeker)
	return g, nil
}

// localNetwork is memberlist's configuration for an office: a peer that vanishes is noticed within
// seconds, not minutes. Names are never resolved.
func localNetwork() *memberlist.Config {
	cfg := memberlist.DefaultLANConfig()
	cfg.UDPBufferSize = wire.MaxDatagram
	cfg.TCPTimeout = 5 * time.Second
	cfg.DNSConfigPath = ""
	return cfg
}

func (g *Gossip) config() *memberlist.Config {
	cfg := localNetwork()
	cfg.Name = g.cfg.Node.Self().String()
	cfg.Transport = g.transport
	cfg.Delegate, cfg.Alive, cfg.Events = (*delegate)(g), (*delegate)(g), (*delegate)(g)
	cfg.Logger = log.New(logWriter{g.cfg.Log}, "", 0)
	return cfg
}

// logWriter takes memberlist's log lines, for debugging: a peer's problem shows in its state.
type logWriter struct{ log *slog.Logger }

func (l logWriter) Write(b []byte) (int, error) {
	l.log.Debug("gossip", "line", strings.TrimSpace(string(b)))
	return len(b), nil
}

// Admit makes a list the newest one. A peer that it no longer admits is gone at once, and Changed
// is called; new members are looked for.
func (g *Gossip) Admit(list identity.List) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list, g.virtual = list, map[netip.AddrPort]identity.PeerID{}
	for _, m := range list.Members() {
		g.virtual[virtualAddr(m.ID)] = m.ID
	}
	now := time.Now()
	for id := range g.peers {
		if !list.Admits(id, now) {
			delete(g.peers, id)
			delete(g.verified, id)
			g.markDirty(id)
		}
	}
	g.nudge.Notify()
}

// Announce changes what this node announces: change is called once, with a lock held. Everybody
// hears of it within a second or two. A change without effect is not announced, since every member
// passes each announcement on to several others. If the new Meta does not fit, that is the error,
// and the last announcement stays.
func (g *Gossip) Announce(change func(*Meta)) error {
	g.mu.Lock()
	before := g.signed
	change(&g.meta)
	err := g.sign()
	changed := !bytes.Equal(before, g.signed)
	g.mu.Unlock()
	if err == nil && changed {
		g.announce.Notify()
	}
	return err
}

// sign encodes our Meta. It fails rather than give memberlist more than it takes. The caller holds
// mu, or nobody else has g yet.
func (g *Gossip) sign() error {
	b, err := g.meta.Sign(g.cfg.Key)
	if err == nil && len(b) > memberlist.MetaMaxSize {
		err = agentbox.Errorf(agentbox.Internal, "an announcement of %d bytes, at most %d", len(b), memberlist.MetaMaxSize)
	}
	if err == nil {
		g.signed = b
	}
	return err
}

// announcer passes a new Meta to memberlist, then pauses, so that many changes become one.
func (g *Gossip) announcer() {
	for g.wait(g.announce) {
		// It fails when no peer took it in time, and keeps trying by itself.
		_ = g.members.UpdateNode(announcePause)
		background.Sleep(g.ctx, announcePause)
	}
}

// notifier calls Changed in its own goroutine, because those that note a change hold locks.
func (g *Gossip) notifier() {
	for g.wait(g.notify) {
		g.mu.Lock()
		changed := g.dirty
		g.dirty = map[identity.PeerID]bool{}
		g.mu.Unlock()
		for id := range changed {
			if g.cfg.Changed != nil {
				g.cfg.Changed(id)
			}
		}
	}
}

// wait waits for a signal; false when the Gossip has ended.
func (g *Gossip) wait(signal background.Signal) bool {
	select {
	case <-signal:
		return g.ctx.Err() == nil
	case <-g.ctx.Done():
		return false
	}
}

// markDirty notes that a peer changed. The caller holds g.mu.
func (g *Gossip) markDirty(id identity.PeerID) {
	g.dirty[id] = true
	g.notify.Notify()
}

// memberAt returns the member with a virtual address; false if nobody has it, or a former member.
func (g *Gossip) memberAt(place netip.AddrPort) (identity.PeerID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok := g.virtual[place]
	return id, ok && g.list.Admits(id, time.Now())
}

// Peers lists the members that are here or were since we started, without this node, by PeerID.
func (g *Gossip) Peers() []Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	out := make([]Peer, 0, len(g.peers))
	for id, p := range g.peers {
		if g.list.Admits(id, now) {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b Peer) int { return a.ID.Compare(b.ID) })
	return out
}

// Peer returns what is known of one member; false if it was not seen since we started.
func (g *Gossip) Peer(id identity.PeerID) (Peer, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.peers[id]
	if !ok || !g.list.Admits(id, time.Now()) {
		return Peer{}, false
	}
	return *p, true
}

// Counters returns the live counters of the limits.
func (g *Gossip) Counters() *Counters { return &g.counters }

// Close tells the others that this node leaves, and ends. It leaves the wire.Node open. It may be
// called more than once.
func (g *Gossip) Close() error { return g.closed() }

func (g *Gossip) close() error {
	g.stop()
	g.tasks.Wait()
	_ = g.members.Leave(leaveTime) // who does not hear of it finds out
	return g.members.Shutdown()
}
