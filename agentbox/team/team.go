package team

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/layers"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/exchange"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/vmm/image"
)

// Team is this machine's part in what its team shares. Its methods may be called concurrently and
// at any time: without a team they find nothing and offer nothing. Set the fields before calling
// Join. Only Upload, DropMachines, OnJoin, OnMade and Contexts are optional.
type Team struct {
	Images       *layers.Images
	SetupResults layers.SetupResults
	Sharing      *layers.Sharing
	Files        *image.Store // the images of this machine
	Upload       int64        // bytes per second to send at most; 0 means no bound
	Log          *slog.Logger
	// DropImage drops an image that must no longer be used, because its maker is no longer a builder.
	// It returns false if a box still runs from the image.
	DropImage func(ctx context.Context, image agentbox.Digest) bool
	// DropMachines drops the templates and kernels of this machine for which gone returns true. by
	// is who made them (IsRevoked). image is what a template's machine booted, or zero for a
	// kernel. DropMachines may be nil.
	DropMachines func(ctx context.Context, gone func(by string, image agentbox.Digest) bool)
	// OnJoin is called when this machine begins to take part. It must not block.
	OnJoin func()
	// OnMade is called when there is a template or kernel that the others may want. It must not
	// block.
	OnMade func()
	// Offers lists the tasks of this machine that others may run, News is called when the catalogues of
	// others have changed. They may be nil. News must not block.
	Offers func() []catalogue.Record
	News   func()
	// Contexts lists what this machine works on. It is called every second while there is a team.
	Contexts func(ctx context.Context) ([]Context, error)

	mesh atomic.Pointer[mesh.Mesh]
	wake background.Signal // something changed here, or the member list changed

	offerMu sync.Mutex // held from reading the names until they are offered

	announcing sync.Mutex // held by announceContexts; it guards announced
	announced  announced

	// mu guards the fields below.
	mu        sync.Mutex
	member    *membership // nil without a team
	changedCh chan struct{}
	services  map[wire.Service]wire.Handler
	expected  map[agentbox.Digest]identity.PeerID // who has a blob (Expect)

	counters Counters
}

// membership is the state that exists while this machine is in a team.
type membership struct {
	node     *wire.Node
	network  *exchange.Wire
	exchange *exchange.Node
}

// New returns a Team without a mesh. The caller sets its fields.
func New() *Team { return &Team{wake: background.NewSignal(), changedCh: make(chan struct{})} }

// Join sets the mesh, which Run then serves. It may be called again with another mesh.
func (t *Team) Join(m *mesh.Mesh) {
	t.mesh.Store(m)
	t.Notify()
}

// Trusts reports whether names signed by a key are believed (cachestore.Config.Trusted).
func (t *Team) Trusts(key ed25519.PublicKey) bool {
	m := t.mesh.Load()
	return m != nil && m.IsBuilder(identity.PeerOf(key))
}

// Notify makes Run look for changes. It does not block.
func (t *Team) Notify() {
	t.wake.Notify()
	t.Changed()
}

// Changed wakes the calls that wait for another machine's result (mesh.Config.Changed). It does not
// block.
func (t *Team) Changed() {
	if t.News != nil {
		t.News()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changedCh)
	t.changedCh = make(chan struct{})
}

func (t *Team) nextChange() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changedCh
}

// Attach starts the exchange of pieces over a node's connections (mesh.Config.Attach). The caller
// calls detach once. Both may be called while other methods run.
func (t *Team) Attach(node *wire.Node) (detach func()) {
	p := &membership{node: node, network: exchange.OverWire(node)}
	var err error
	p.exchange, err = exchange.New(exchange.Config{
		Self: node.Self(), Network: p.network, Holders: t, Store: t.Sharing, Upload: t.Upload, Log: t.Log,
	})
	if err != nil {
		t.Log.Error("team: the exchange of blobs cannot start", "error", err)
		return func() {}
	}
	p.network.Answer(p.exchange)
	t.mu.Lock()
	for service, h := range t.services {
		node.Handle(service, h)
	}
	t.member = p
	t.mu.Unlock()
	if t.OnJoin != nil {
		t.OnJoin()
	}
	return func() {
		t.mu.Lock()
		t.member = nil
		t.mu.Unlock()
		if err := errors.Join(p.exchange.Close(), p.network.Close()); err != nil {
			t.Log.Warn("team: leave the exchange", "error", err)
		}
	}
}

// Serve has a service of the mesh answered from now on, in each team that this machine is in.
func (t *Team) Serve(service wire.Service, h wire.Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.services == nil {
		t.services = map[wire.Service]wire.Handler{}
	}
	t.services[service] = h
	if t.member != nil {
		t.member.node.Handle(service, h)
	}
}

// current is the current part, nil without a team. It may be closed at any later moment.
func (t *Team) current() *membership {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.member
}

// Peers returns this machine's part in the exchange (layers.Remotes.Peers), or nil without a team.
func (t *Team) Peers() *exchange.Node {
	if p := t.current(); p != nil {
		return p.exchange
	}
	return nil
}

// SharingChanged stops sending what is no longer shared, and offers what is shared now
// (layers.Sharing.Changed).
func (t *Team) SharingChanged() {
	if p := t.current(); p != nil {
		p.exchange.Recheck(context.Background())
	}
	t.Notify()
}

// Holders returns the members that announced that they have parts of a blob, or said so (Expect). It
// reads only memory (exchange.Holders).
func (t *Team) Holders(manifest agentbox.Digest) []identity.PeerID {
	var all []identity.PeerID
	if _, c := t.catalogues(); c != nil {
		all = c.Holders(manifest)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if peer, ok := t.expected[manifest]; ok && !slices.Contains(all, peer) {
		all = append(slices.Clone(all), peer)
	}
	return all
}

// Expect has a member asked for blobs that its catalogue does not name, until done is called.
func (t *Team) Expect(peer identity.PeerID, manifests ...agentbox.Digest) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected == nil {
		t.expected = map[agentbox.Digest]identity.PeerID{}
	}
	for _, m := range manifests {
		t.expected[m] = peer
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, m := range manifests {
			delete(t.expected, m)
		}
	}
}

// debounce is also the shortest interval between two looks during a burst of changes. minInterval
// covers changes that were not announced.
const (
	debounce    = 200 * time.Millisecond // several changes are announced as one
	minInterval = 30 * time.Second
)

// Run updates our offers, announces what this machine works on, and drops what must no longer be
// used. It does so after every change, until ctx ends. Call it once. A failed offer is retried
// every second.
func (t *Team) Run(ctx context.Context) {
	tick, second := time.NewTicker(minInterval), time.NewTicker(time.Second)
	defer tick.Stop()
	defer second.Stop()
	offered := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			if err := t.announceContexts(ctx); err != nil && ctx.Err() == nil {
				t.Log.Error("team: boxes and tasks cannot be announced", "error", err)
			}
			if offered {
				continue
			}
		case <-tick.C:
		case <-t.wake:
			if !background.Sleep(ctx, debounce) {
				return
			}
		}
		// Without a team nothing is offered, and there is no error: Join and each new mesh wake us.
		err := t.offer(ctx)
		if err != nil && ctx.Err() == nil && offered {
			t.Log.Error("team: local results cannot be offered", "error", err)
		}
		offered = err == nil
		t.dropRevoked(ctx)
	}
}

// HasPeers reports whether other machines may want what is made here (host.Team).
func (t *Team) HasPeers() bool {
	_, c := t.catalogues()
	return c != nil
}

// catalogues returns the mesh and its catalogue, or nil without a team. Either may be closed at any
// moment afterwards.
func (t *Team) catalogues() (*mesh.Mesh, *catalogue.Store) {
	if m := t.mesh.Load(); m != nil {
		return m, m.Catalogues()
	}
	return nil, nil
}
