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
	// Key is the identity: the same key signs the names in this machine's store.
	Key ed25519.PrivateKey
	Log *slog.Logger
	// Attach is told of the connections whenever this machine begins to take part in a team. What
	// it gives is called before they are closed. nil: nobody uses them. Neither may call Init,
	// Join, Leave or Close, which wait for them.
	Attach func(*wire.Node) (detach func())
	// Changed is told that the catalogue of a member changed, Listed that the list of members did,
	// or whether this machine takes part. They may not wait. nil: nobody is told.
	Changed, Listed func()
	// Alone has members not be looked for, and this machine not be announced, by multicast on the
	// local network.
	Alone bool
}

// Mesh is this machine's part in its team, or in none yet. Its methods may be called at once; those
// that change whether it takes part wait for each other.
type Mesh struct {
	cfg    Config
	self   identity.PeerID
	roster *roster.Roster
	ctx    context.Context
	stop   context.CancelFunc
	// tasks are exchanges with peers and what spreads a list; Close waits for them.
	tasks background.Group

	// changing is held through Init, Join, Leave and Close. It is taken before mu.
	changing sync.Mutex

	// mu guards what follows, and is held for no call of another room.
	mu      sync.Mutex
	run     *running // nil: there is no team, or it cannot be reached
	problem error    // why it cannot
	// busy are the peers with which meet goes on.
	busy map[identity.PeerID]bool
	// met is when we exchanged heads with each peer: the moment since which it was here then.
	met map[identity.PeerID]time.Time
}

// running is what there is while this machine is in a team. It is complete when it is published in
// Mesh.run, but for detach, which belongs to the holder of Mesh.changing.
type running struct {
	node       *wire.Node
	gossip     *gossip.Gossip
	catalogues *catalogue.Store
	nearby     *nearby // nil: nobody is looked for
	// detach is what Config.Attach gave, nil for nothing.
	detach func()
	stop   context.CancelFunc
	// tasks are look and the catalogues' Run; they end with stop.
	tasks sync.WaitGroup
}

// Open takes up the part in the team that is kept on disk. That the network does not allow it is no
// error: Problem says so, and everything of this machine works. The error is about the files of
// cfg.Dir. The caller closes the Mesh.
func Open(cfg Config) (*Mesh, error) {
	m := &Mesh{
		cfg: cfg, self: identity.PeerOf(cfg.Key.Public().(ed25519.PublicKey)),
		busy: map[identity.PeerID]bool{}, met: map[identity.PeerID]time.Time{},
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

// begin starts with the team of the roster, on what listen gave; an error is Problem's from then on.
// m.changing is held, or nobody else has m yet.
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

// beginOn starts everything on a node, which it closes when that fails. The order is that of need:
// the node admits members before anything of it is used, catalogues are there before gossip brings
// news of them, and both before anybody outside is told.
func (m *Mesh) beginOn(node *wire.Node) error {
	list := m.roster.List()
	node.Admit(list)
	m.learn(node)
	r := &running{node: node}
	var err error
	r.catalogues, err = catalogue.Open(catalogue.Config{
		Dir: filepath.Join(m.cfg.Dir, "catalogues"), Key: m.cfg.Key, Node: node, Log: m.cfg.Log, Here: m.Here, Announce: m.announce,
		Changed: func(identity.PeerID) { tell(m.cfg.Changed) },
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
	if !m.cfg.Alone {
		r.nearby = m.lookAround(ctx, r)
	}
	m.mu.Lock()
	m.run = r // from here on others read it
	m.mu.Unlock()
	m.announce(r.catalogues.Head())
	m.roster.Answer(node)
	node.Handle(wire.Clock, wire.Answers(100, tellTime))
	if m.cfg.Attach != nil {
		r.detach = m.cfg.Attach(node)
	}
	tell(m.cfg.Listed)
	r.tasks.Go(func() { r.catalogues.Run(ctx) })
	r.tasks.Go(func() { m.look(ctx, r) })
	return nil
}

// end stops what begin started, in the order in which one uses the other: first those outside let
// go, then the news end, then the connections. What runs in goroutines is waited for. m.changing is
// held.
func (m *Mesh) end() error {
	m.mu.Lock()
	r := m.run
	m.run, m.problem = nil, nil
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	m.remember(r.node)
	if r.detach != nil {
		r.detach()
	}
	tell(m.cfg.Listed)
	r.stop()
	if r.nearby != nil {
		r.nearby.close()
	}
	err := errors.Join(r.gossip.Close(), r.catalogues.Close(), r.node.Close())
	r.tasks.Wait()
	return err
}

// Close leaves the network, not the team. Nothing may be called afterwards.
func (m *Mesh) Close() error {
	m.changing.Lock()
	defer m.changing.Unlock()
	err := m.end()
	m.stop()
	m.tasks.Close()
	return err
}

// tell calls a func of Config's, which may be nil.
func tell(f func()) {
	if f != nil {
		f()
	}
}

// Self is the PeerID of this machine.
func (m *Mesh) Self() identity.PeerID { return m.self }

// IsBuilder tells whether the others may use what a member made: it is a member now, by our clock,
// with the role.
func (m *Mesh) IsBuilder(id identity.PeerID) bool {
	member, ok := m.roster.List().Member(id)
	return ok && member.Active(time.Now()) && member.Has(identity.Builder)
}

// WasBuilder tells whether a member was revoked, has left or is no builder, so that what it made
// has to go. Of a peer that the list does not know nobody can tell, and one that has only expired,
// by this machine's clock, may be believed again: both are false.
func (m *Mesh) WasBuilder(id identity.PeerID) bool {
	member, ok := m.roster.List().Member(id)
	return ok && (member.Revoked || member.Left || !member.Has(identity.Builder))
}

// running is what there is now, nil while this machine takes part in no team.
func (m *Mesh) running() *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// listChanged makes a new member list known to everything here, and then to everybody who is here.
// The roster calls it. The node comes first: a revoked peer's connections end before anything else
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
	tell(m.cfg.Listed)
	m.announce(r.catalogues.Head())
	m.tasks.Go(func() { m.roster.Spread(m.ctx, r.node, m.Here()) })
}

// How much load and free space change before that is worth telling: an announcement goes from every
// member to several others, which is most of what an idle team would send.
const (
	loadStep  = 10 // percent of the processors
	freeParts = 16 // a sixteenth of what was free
)

func differs(a, b, by int) bool { return max(a-b, b-a) > by }

// announce tells everybody which list and catalogue this machine has, how busy it is and what is
// free. Calls may come in any order, so an older head never replaces a newer one.
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

// Here lists the members that are here now, this machine left out, by PeerID; none without a team.
// Members that have just gone may be among them for some seconds.
func (m *Mesh) Here() []identity.PeerID {
	r := m.running()
	if r == nil {
		return nil
	}
	var out []identity.PeerID
	for _, p := range r.gossip.Peers() {
		if p.Here {
			out = append(out, p.ID)
		}
	}
	return out
}

// peerChanged looks at what a peer announces, and gets what is new: its catalogue by way of
// catalogue.Store, the member list in a goroutine of its own, one for each peer. Gossip calls it at
// each change, and look for everybody, should something have failed.
func (m *Mesh) peerChanged(id identity.PeerID) {
	r := m.running()
	if r == nil {
		return
	}
	p, ok := r.gossip.Peer(id)
	if !ok || !p.Here {
		return
	}
	r.catalogues.Saw(id, p.Meta.Sequence, id)
	mine := m.roster.List().Digest()
	m.mu.Lock()
	defer m.mu.Unlock()
	differs, came := p.Meta.List != [8]byte(mine[:8]), !m.met[id].Equal(p.Since)
	if m.busy[id] || !differs && !came || m.ctx.Err() != nil {
		return
	}
	m.met[id] = p.Since
	m.busy[id] = m.tasks.Go(func() { m.meet(r, id, differs, came) })
}

// meet exchanges lists with a peer that has another, and heads with one that just came.
func (m *Mesh) meet(r *running, id identity.PeerID, differs, came bool) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, id)
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

// look does now and then what news missed, until ctx is done: every five seconds it compares lists,
// every half minute it writes addresses down and announces load and space, every hour it renews
// memberships that a machine with the root key has to renew.
func (m *Mesh) look(ctx context.Context, r *running) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, id := range m.Here() {
			m.peerChanged(id)
		}
		if n%6 == 0 {
			m.remember(r.node)
			m.announce(r.catalogues.Head())
		}
		if n%720 == 0 {
			if err := m.roster.Renew(); err != nil {
				m.cfg.Log.Error("mesh: renew members", "error", err)
			}
		}
	}
}

// Catalogues gives what everybody has, nil without a team. It is another one after each Join, so
// callers do not keep it.
func (m *Mesh) Catalogues() *catalogue.Store {
	if r := m.running(); r != nil {
		return r.catalogues
	}
	return nil
}

// Node gives the connections to the team, nil without one. It is closed when this machine leaves;
// Attach tells of each.
func (m *Mesh) Node() *wire.Node {
	if r := m.running(); r != nil {
		return r.node
	}
	return nil
}
