package team

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
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

// Team is this machine's part in what its team shares. Its methods may be called at once, and at
// any time: without a team nothing is found and nothing is offered. The fields are set before Join;
// only Upload, GoneMachines, Joined, Made and Contexts may be left out.
type Team struct {
	Images       *layers.Images
	SetupResults layers.SetupResults
	Sharing      *layers.Sharing
	Files        *image.Store // the images of this machine
	Upload       int64        // bytes a second that are sent at most; 0: no bound
	Log          *slog.Logger
	// Gone lets go of an image that is not to be used any more, because who made it is no builder
	// now. False: a box runs from it.
	Gone func(ctx context.Context, image agentbox.Digest) bool
	// GoneMachines lets go of the templates and kernels of this machine of which gone is true: by is
	// who made them (Distrusts), image what a template's machine booted, zero for a kernel. It may be
	// nil.
	GoneMachines func(ctx context.Context, gone func(by string, image agentbox.Digest) bool)
	// Joined is told that this machine begins to take part; it may not wait.
	Joined func()
	// Made is told that there is a template or kernel that the others may want; it may not wait.
	Made func()
	// Contexts lists what this machine works on. It is asked every second while there is a team.
	Contexts func(ctx context.Context) ([]Context, error)

	mesh atomic.Pointer[mesh.Mesh]
	wake background.Signal // something changed here, or who is in the team

	offering sync.Mutex // held from reading the names to offering what they say

	// mu guards what follows.
	mu   sync.Mutex
	part *part // nil: no team
	told chan struct{}

	counters Counters
}

// part is what there is while this machine is in a team.
type part struct {
	node     *wire.Node
	network  *exchange.Wire
	exchange *exchange.Node
}

// New makes a Team whose fields are to be set.
func New() *Team { return &Team{wake: background.NewSignal(), told: make(chan struct{})} }

// Join says which mesh it is. Run serves it. It may be called again with another mesh.
func (t *Team) Join(m *mesh.Mesh) {
	t.mesh.Store(m)
	t.Wake()
}

// Trusts tells whether to believe the names that a key signs (cachestore.Config.Trusted).
func (t *Team) Trusts(key ed25519.PublicKey) bool {
	m := t.mesh.Load()
	return m != nil && m.IsBuilder(identity.PeerOf(key))
}

// Wake has Run look at what changed. It does not wait.
func (t *Team) Wake() {
	t.wake.Notify()
	t.Changed()
}

// Changed has those look again who wait for what others make (mesh.Config.Changed). It does not
// wait.
func (t *Team) Changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.told)
	t.told = make(chan struct{})
}

// next is closed at the next change.
func (t *Team) next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// Attach begins the exchange of pieces over a node's connections (mesh.Config.Attach). detach is
// called once; both may be called while methods run.
func (t *Team) Attach(node *wire.Node) (detach func()) {
	p := &part{node: node, network: exchange.OverWire(node)}
	var err error
	p.exchange, err = exchange.New(exchange.Config{
		Self: node.Self(), Network: p.network, Holders: t, Store: t.Sharing, Upload: t.Upload, Log: t.Log,
	})
	if err != nil {
		t.Log.Error("team: nothing is exchanged", "error", err)
		return func() {}
	}
	p.network.Answer(p.exchange)
	t.mu.Lock()
	t.part = p
	t.mu.Unlock()
	if t.Joined != nil {
		t.Joined()
	}
	return func() {
		t.mu.Lock()
		t.part = nil
		t.mu.Unlock()
		if err := errors.Join(p.exchange.Close(), p.network.Close()); err != nil {
			t.Log.Warn("team: leave the exchange", "error", err)
		}
	}
}

// now is what there is of a team at this moment. It may be closed the next.
func (t *Team) now() *part {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.part
}

// Peers is this machine's part in the exchange (layers.Remotes.Peers), nil without a team.
func (t *Team) Peers() *exchange.Node {
	if p := t.now(); p != nil {
		return p.exchange
	}
	return nil
}

// SharingChanged ends what is sent of what is not shared any more, and offers what is
// (layers.Sharing.Changed).
func (t *Team) SharingChanged() {
	if p := t.now(); p != nil {
		p.exchange.Recheck(context.Background())
	}
	t.Wake()
}

// Holders are those who say that they have some of a blob, by memory (exchange.Holders).
func (t *Team) Holders(manifest agentbox.Digest) []identity.PeerID {
	if _, c := t.catalogues(); c != nil {
		return c.Holders(manifest)
	}
	return nil
}

// settle is also how often a burst of changes is looked at; lookEach is for what nobody told of.
const (
	settle   = 200 * time.Millisecond // several changes are told as one
	lookEach = 30 * time.Second
)

// Run offers what there is, says what this machine works on and drops what is not to be used,
// whenever something changed, until ctx ends. It is called once. An offer that failed is tried
// again each second.
func (t *Team) Run(ctx context.Context) {
	tick, second := time.NewTicker(lookEach), time.NewTicker(time.Second)
	defer tick.Stop()
	defer second.Stop()
	offered := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			if err := t.tellContexts(ctx); err != nil && ctx.Err() == nil {
				t.Log.Error("team: what this machine works on cannot be told", "error", err)
			}
			if offered {
				continue
			}
		case <-tick.C:
		case <-t.wake:
			select {
			case <-time.After(settle):
			case <-ctx.Done():
				return
			}
		}
		// A mesh that is just ending or beginning takes no offer, and says nothing when it does.
		m, c := t.catalogues()
		err := t.offer(ctx)
		if err != nil && ctx.Err() == nil && offered {
			t.Log.Error("team: what is here cannot be offered", "error", err)
		}
		offered = err == nil && (m == nil || c != nil)
		t.dropRevoked(ctx)
	}
}

// Waits tells whether others may want what is made here (host.Team).
func (t *Team) Waits() bool {
	_, c := t.catalogues()
	return c != nil
}

// catalogues gives what everybody has, nil without a team. It may be closed at any moment after.
func (t *Team) catalogues() (*mesh.Mesh, *catalogue.Store) {
	if m := t.mesh.Load(); m != nil {
		return m, m.Catalogues()
	}
	return nil, nil
}
