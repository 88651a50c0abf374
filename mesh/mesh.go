package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox/background"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/gossip"
	"agentbox/mesh/identity"
	"agentbox/mesh/roster"
	"agentbox/mesh/wire"
)

// Config says who this machine is.
type Config struct {
	Dir string // made if need be
	// Key is the identity, which also signs the names in this machine's store.
	Key ed25519.PrivateKey
	Log *slog.Logger
	// Attach gets the connections whenever this machine begins to take part in a team. The detach
	// that it returns is called before they are closed. It may be nil. Neither may call Init, Join,
	// Leave or Close, which wait for them.
	Attach func(*wire.Node) (detach func())
	// OnCatalogueChange is called when the catalogue of a member changed, OnListChange when the
	// member list did, or whether this machine takes part. They may not block. They may be nil.
	OnCatalogueChange, OnListChange func()
	// NoMulticast turns off multicast on the local network: members are not looked for, and this
	// machine is not announced.
	NoMulticast bool
}

// Mesh is this machine's part in its team, or in none yet. Its methods may be called concurrently;
// those that change whether it takes part wait for each other.
type Mesh struct {
	cfg    Config
	self   identity.PeerID
	roster *roster.Roster
	ctx    context.Context
	stop   context.CancelFunc
	// tasks are exchanges with peers and the spreading of lists; Close waits for them.
	tasks background.Group
	// learned has a notification when a member has an address that is not on disk.
	learned background.Signal

	// saving is held while addresses are written, so that older ones do not replace newer ones.
	saving sync.Mutex

	// changing is held through Init, Join, Leave and Close. It is taken before mu.
	changing sync.Mutex

	// mu guards the fields below, and is held during no call of another package.
	mu      sync.Mutex
	run     *running // nil: there is no team, or it cannot be reached
	problem error    // why it cannot
	// syncing are the peers with which syncWith is under way.
	syncing map[identity.PeerID]bool
	// met has, for each peer with which we exchanged heads, since when it had been here then.
	met map[identity.PeerID]time.Time
}

// running exists while this machine takes part in a team. It is complete when it is published in
// Mesh.run, except for detach, which belongs to the holder of Mesh.changing.
type running struct {
	node       *wire.Node
	gossip     *gossip.Gossip
	catalogues *catalogue.Store
	nearby     *nearby // nil: nobody is looked for
	// detach is what Config.Attach returned, nil for nothing.
	detach func()
	stop   context.CancelFunc
	// tasks are poll, rememberAddresses and the catalogues' Run; they end with stop.
	tasks sync.WaitGroup
}

// Open resumes the part in the team that is on disk. If the network does not allow it, that is no
// error: Problem says so, and everything else of this machine works. The error is about the files
// of cfg.Dir. The caller closes the Mesh.
func Open(cfg Config) (*Mesh, error) {
	m := &Mesh{
		cfg: cfg, self: identity.PeerOf(cfg.Key.Public().(ed25519.PublicKey)),
		learned: background.NewSignal(), syncing: map[identity.PeerID]bool{}, met: map[identity.PeerID]time.Time{},
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	var err error
	m.roster, err = roster.Open(roster.Config{Dir: cfg.Dir, Key: cfg.Key, Log: cfg.Log, Changed: m.listChanged})
	if err != nil {
		return nil, err
	}
	if !m.roster.List().Team().IsZero() {
		_ = m.begin(m.listen()) // Problem says so
	}
	return m, nil
}

// begin starts to take part in the roster's team, with the result of listen; Problem returns the
// error from then on. The caller holds m.changing, or nobody else has m yet.
func (m *Mesh) begin(node *wire.Node, err error) error {
	if err == nil {
		err = m.beginOn(node)
	}
	m.mu.Lock()
	m.problem = err
	m.mu.Unlock()
	if err != nil {
		m.cfg.Log.Error("mesh: this machine does not take part in its team", "error", err)
	}
	return err
}

// beginOn starts everything on a node, and closes the node if that fails. The order follows the
// dependencies: the node admits members before anything uses it, catalogues exist before gossip
// brings news of them, and both before anybody outside is notified.
func (m *Mesh) beginOn(node *wire.Node) error {
	list := m.roster.List()
	node.Admit(list)
	m.loadAddresses(node)
	r := &running{node: node}
	var err error
	r.catalogues, err = catalogue.Open(catalogue.Config{
		Dir: filepath.Join(m.cfg.Dir, "catalogues"), Key: m.cfg.Key, Node: node, Log: m.cfg.Log, OnlinePeers: m.OnlinePeers, Announce: m.announce,
		Changed: func(identity.PeerID) { call(m.cfg.OnCatalogueChange) },
	}, list)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	r.gossip, err = gossip.Start(gossip.Config{Node: node, Key: m.cfg.Key, Log: m.cfg.Log, Changed: m.peerChanged}, list)
	if err != nil {
		return errors.Join(err, r.catalogues.Close(), node.Close())
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(m.ctx)
	if !m.cfg.NoMulticast {
		r.nearby = m.startNearby(ctx, r)
	}
	m.mu.Lock()
	m.run = r // from here on others read it
	m.mu.Unlock()
	m.announce(r.catalogues.Head())
	m.roster.Answer(node)
	node.Handle(wire.Clock, wire.AnswerHandler(100, serveClock))
	if m.cfg.Attach != nil {
		r.detach = m.cfg.Attach(node)
	}
	call(m.cfg.OnListChange)
	r.tasks.Go(func() { r.catalogues.Run(ctx) })
	r.tasks.Go(func() { m.poll(ctx, r) })
	r.tasks.Go(func() { m.rememberAddresses(ctx, r) })
	return nil
}

// end stops what begin started, users first: those outside let go, then the news end, then the
// connections. It waits for all goroutines. The caller holds m.changing.
func (m *Mesh) end() error {
	m.mu.Lock()
	r := m.run
	m.run, m.problem = nil, nil
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	m.saveAddresses(r.node)
	if r.detach != nil {
		r.detach()
	}
	call(m.cfg.OnListChange)
	r.stop()
	if r.nearby != nil {
		r.nearby.close()
	}
	err := errors.Join(r.gossip.Close(), r.catalogues.Close(), r.node.Close())
	r.tasks.Wait()
	return err
}

// Close leaves the network, not the team. No method may be called afterwards.
func (m *Mesh) Close() error {
	m.changing.Lock()
	defer m.changing.Unlock()
	err := m.end()
	m.stop()
	m.tasks.Close()
	return err
}

// call calls a func of Config's, which may be nil.
func call(f func()) {
	if f != nil {
		f()
	}
}

// Self is the PeerID of this machine.
func (m *Mesh) Self() identity.PeerID { return m.self }

// IsBuilder reports whether others may use what a member made: it is a member now, by our clock,
// and has the role.
func (m *Mesh) IsBuilder(id identity.PeerID) bool {
	member, ok := m.roster.List().Member(id)
	return ok && member.Active(time.Now()) && member.Has(identity.Builder)
}

// WasBuilder reports whether a member was revoked, has left or is no builder, so that what it made
// must be removed. It is false for a peer that the list does not know, of which nobody can tell,
// and for one that has only expired by this machine's clock, which may be renewed.
func (m *Mesh) WasBuilder(id identity.PeerID) bool {
	member, ok := m.roster.List().Member(id)
	return ok && (member.Revoked || member.Left || !member.Has(identity.Builder))
}

// running returns what exists while this machine takes part in a team, else nil.
func (m *Mesh) running() *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// listChanged passes a new member list to everything here, and then to everybody who is here. The
// roster calls it. The node comes first: a revoked peer's connections end before anything else
// happens.
func (m *Mesh) listChanged(list identity.List) {
	r := m.running()
	if r == nil {
		return
	}
	r.node.Admit(list)
	r.gossip.Admit(list)
	if err := r.catalogues.Admit(list); err != nil {
		m.cfg.Log.Error("mesh: forget the catalogues of former members", "error", err)
	}
	call(m.cfg.OnListChange)
	m.announce(r.catalogues.Head())
	m.tasks.Go(func() { m.roster.Spread(m.ctx, r.node, m.OnlinePeers()) })
}

// By how much load and free space must change to be announced: every member passes an
// announcement on to several others, which is most of what an idle team sends.
const (
	loadStep  = 10 // percent of the processors
	freeParts = 16 // a sixteenth of what was free
)

func differs(a, b, by int) bool { return max(a-b, b-a) > by }

// announce tells everybody which list and catalogue this machine has, its load and its free space.
// Calls may come in any order, so an older head never replaces a newer one.
func (m *Mesh) announce(head catalogue.Head) {
	r := m.running()
	if r == nil {
		return
	}
	digest := m.roster.List().Digest()
	load, free := usage(m.cfg.Dir)
	err := r.gossip.Announce(func(meta *gossip.Meta) {
		if head.Sequence >= meta.Sequence {
			meta.Sequence, meta.Digest = head.Sequence, head.Digest
		}
		meta.List = [8]byte(digest[:8])
		if differs(int(meta.Load), int(load), loadStep) || differs(int(meta.Free), int(free), int(meta.Free)/freeParts) {
			meta.Load, meta.Free = load, free
		}
	})
	if err != nil {
		m.cfg.Log.Error("mesh: announce", "error", err)
	}
}

// OnlinePeers lists the members that are here now, without this machine, by PeerID; none without a
// team. It may include members that have left seconds ago.
func (m *Mesh) OnlinePeers() []identity.PeerID {
	r := m.running()
	if r == nil {
		return nil
	}
	var out []identity.PeerID
	for _, p := range r.gossip.Peers() {
		if p.Online {
			out = append(out, p.ID)
		}
	}
	return out
}

// IsOnline tells whether a member is here.
func (m *Mesh) IsOnline(id identity.PeerID) bool {
	r := m.running()
	if r == nil {
		return false
	}
	p, ok := r.gossip.Peer(id)
	return ok && p.Online
}

// peerChanged looks at what a peer announces, and fetches what is new: its catalogue through
// catalogue.Store, the member list in a goroutine, one for each peer. Gossip calls it at each
// change, and poll for everybody, in case something failed.
func (m *Mesh) peerChanged(id identity.PeerID) {
	r := m.running()
	if r == nil {
		return
	}
	p, ok := r.gossip.Peer(id)
	if !ok || !p.Online {
		return
	}
	r.catalogues.ObserveSequence(id, p.Meta.Sequence, id)
	mine := m.roster.List().Digest()
	m.mu.Lock()
	defer m.mu.Unlock()
	differs, came := p.Meta.List != [8]byte(mine[:8]), !m.met[id].Equal(p.Since)
	if m.syncing[id] || !differs && !came || m.ctx.Err() != nil {
		return
	}
	m.met[id] = p.Since
	m.syncing[id] = m.tasks.Go(func() { m.syncWith(r, id, differs, came) })
}

// syncWith exchanges lists with a peer that has another, and heads with one that just came.
func (m *Mesh) syncWith(r *running, id identity.PeerID, differs, came bool) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.syncing, id)
	}()
	if differs {
		if err := m.roster.Sync(m.ctx, r.node, id); err != nil {
			m.cfg.Log.Info("mesh: member lists were not exchanged", "peer", id.Short(), "error", err)
		}
	}
	if came {
		if err := r.catalogues.Exchange(m.ctx, id); err != nil {
			m.cfg.Log.Info("mesh: catalogues were not exchanged", "peer", id.Short(), "error", err)
		}
	}
}

// poll catches up on what news missed, until ctx is done: every five seconds it compares lists, every half
// minute it writes to disk which addresses worked last and announces load and space, and every hour it
// renews the memberships that this machine can renew.
func (m *Mesh) poll(ctx context.Context, r *running) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, id := range m.OnlinePeers() {
			m.peerChanged(id)
		}
		if n%6 == 0 {
			m.saveAddresses(r.node)
			m.announce(r.catalogues.Head())
		}
		if n%720 == 0 {
			if err := m.roster.Renew(); err != nil {
				m.cfg.Log.Error("mesh: renew members", "error", err)
			}
		}
	}
}

// Catalogues returns what everybody has, nil without a team. It is another one after each Join, so
// callers do not keep it.
func (m *Mesh) Catalogues() *catalogue.Store {
	if r := m.running(); r != nil {
		return r.catalogues
	}
	return nil
}

// Node returns the connections to the team, nil without one. It is closed when this machine leaves;
// Attach gets each new one.
func (m *Mesh) Node() *wire.Node {
	if r := m.running(); r != nil {
		return r.node
	}
	return nil
}
