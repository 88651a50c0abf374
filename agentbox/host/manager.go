package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/capacity"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/host/conversations"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/keyed"
	"agentbox/agentbox/host/pool"
	"agentbox/agentbox/host/prune"
	"agentbox/agentbox/host/recipes"
	"agentbox/agentbox/host/remotes"
	"agentbox/agentbox/host/serving"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/host/staging"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/place"
	"agentbox/agentbox/project"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/vmm/image"
)

// Team is what boxes need from the other machines of a team (agentbox/team). Its methods may be
// called from several goroutines.
type Team interface {
	setup.Team
	// HasPeers tells whether other machines wait for what this one makes.
	HasPeers() bool
	// CheckAvailable says why part of an image from the team can no longer be had from anyone. It
	// returns nil while everything may still arrive.
	CheckAvailable(ctx context.Context, img image.Image) error
}

// Config is what a Manager needs. It uses all of it for as long as it lives.
type Config struct {
	Home   home.Home
	Client string // path of the program that users run, for git remotes
	Images *image.Store
	// Places opens the kinds of places.
	Places func(PlaceParts) (Places, error)
	// Kernel finds or fetches the guest kernel that override asks for, "" for the default.
	Kernel  func(ctx context.Context, override string, progress agentbox.Progress) (dir string, err error)
	Results setup.Results // what setup made, by key; nil: every box runs setup itself
	// ChunkStore keeps images and gets them from elsewhere; nil: images are only made here.
	ChunkStore images.ChunkStore
	Sources    *source.Store
	Team       Team // nil: this machine is in no team
	Pool       int  // machines kept ready per key (Box.Template); -1 sizes it by this machine
	Log        *slog.Logger
	// Changed is called when a machine has ended; it must not block. nil: nobody looks.
	Changed func()
	// Yield says how far boxes for other members' tasks give way.
	Yield func() resources.Yield
}

// PlaceParts is what places need of a Manager.
type PlaceParts struct {
	Images  *images.Images
	Context context.Context // ends with the Manager
	Go      func(func())    // runs what ends with Context
}

// Places are the kinds of places that a Manager's boxes have.
type Places struct {
	// Kind may be called often. Invalid if there is none of this name.
	Kind func(agentbox.Isolation) (place.Kind, error)
	// Discard ends and removes what is left of a box without a record.
	Discard func(agentbox.BoxID) error
	// OpenLog opens what is kept of a box's machine: what it printed, or, with supervisor, what
	// happened to it. NotFound if there is nothing.
	OpenLog func(id agentbox.BoxID, supervisor bool) (*os.File, error)
	// Templates are what places of this machine begin with; nil: nothing.
	Templates Templates
}

// Templates keep what places begin with, by key.
type Templates interface {
	prune.Templates
	Origins() (map[string]place.Origin, error)
	Close()
}

// Manager keeps the boxes of one home. The daemon's lock ensures that one process at a time has a
// Manager of a home. Exported methods may be called from several goroutines. Each operation on a
// box holds the box's op; creating one holds the lock of its key, so that two calls of Up for one
// directory create one box. Lock order: key, then op.
//
// The zero value is not usable: see New.
type Manager struct {
	Parts

	home   home.Home
	kernel func(context.Context, string, agentbox.Progress) (string, error)
	log    *slog.Logger

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines of the Manager

	chooser       isolation.Chooser
	consent       consent.Approvals
	setup         *setup.Setup
	conversations *conversations.Store
	places        Places
	pool          *pool.Pool[record, *box]

	boxes    *table
	disk     disk
	machines *machines
	maker    *maker
	keys     keyed.Locks // one up at a time for each key
}

// Parts are the parts that answer requests by themselves. They are exported because the daemon
// serves their methods directly; whatever involves a box goes through the Manager.
type Parts struct {
	Images   *images.Images
	Recipes  recipes.Recipes
	Policies *egress.Policies
	Work     work.Work
	Ports    serving.Ports
	Capacity capacity.Capacity
	Pruner   prune.Pruner
}

// New makes a Manager and takes over what an earlier one left: it adopts running boxes, and
// finishes or undoes half-done work. It returns when it has looked at every box; one that cannot be
// taken over is logged and does not make New fail. On failure New leaves no goroutine running.
func New(cfg Config) (*Manager, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{
		home: cfg.Home, kernel: cfg.Kernel, log: cfg.Log, ctx: ctx, cancel: cancel, boxes: newTable(cfg.Home),
	}
	m.chooser, m.disk = isolation.Chooser{Kind: m.kind}, disk{cfg.Home, m.kind}
	// Boxes are adopted last, because that needs everything else.
	m.makePolicyParts(cfg)
	err := m.makeBoxParts(cfg)
	if err == nil {
		err = adoption{m.boxes, m.disk, m.machines, m.maker.remove, m.places.Discard}.all()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	// What an earlier daemon was writing outside of boxes takes space, and hinders nothing.
	if err := errors.Join(snapshot.Sweep(cfg.Home.Mirrors()), m.conversations.Sweep(), durable.Sweep(cfg.Home.State(), emptyPrefix+"*")); err != nil {
		cfg.Log.Warn("cannot remove what an earlier daemon left", "error", err)
	}
	// From here on goroutines run, which Close waits for.
	m.running.Go(func() { m.runEvery(tidyEvery, m.tidy) })
	// The last daemon may have died before it announced a change of policy.
	m.running.Go(func() { m.Policies.Notify(m.ctx, nil, nil) })
	m.running.Go(func() { m.pool.Run(ctx) })
	m.running.Go(func() { egress.MachineRoots() }) // so that the first box need not wait for it
	m.Images.Start(m.boxes.imagesInUse())
	return m, nil
}

// Close stops the Manager but no box. The pool's machines end, since nobody has a lease on them.
// The context is cancelled first, so that nothing new starts, then Close waits for what runs.
// Images are closed last, because machines of the pool may read from them.
func (m *Manager) Close() error {
	m.cancel()
	m.pool.Drain()
	if m.places.Templates != nil {
		m.places.Templates.Close()
	}
	m.Policies.Close()
	m.running.Wait()
	return m.Images.Close()
}

// makePolicyParts makes the parts that decide what boxes get and may do. The parts that make boxes
// ask them, so they come first.
func (m *Manager) makePolicyParts(cfg Config) {
	var lost func(context.Context, image.Image) error
	if cfg.Team != nil {
		lost = cfg.Team.CheckAvailable
	}
	m.Images = images.New(images.Config{
		CheckAvailable: lost, Store: cfg.Images, ChunkStore: cfg.ChunkStore, UsedBy: m.boxes.boxesUsing, Home: cfg.Home.Dir, Log: cfg.Log,
		HasPeers: func() bool { return cfg.Team != nil && cfg.Team.HasPeers() },
		NeedsComplete: func(kind agentbox.Isolation) (why, err error) {
			k, err := m.kind(kind)
			return place.ReadsBlocks(k), err
		},
	})
	store := project.NewStore(cfg.Home)
	m.consent = consent.Approvals{Store: store, Agents: cfg.Home.Agents(), HasBase: cfg.Images.HasBase, BestKind: func(ctx context.Context) (agentbox.Isolation, error) {
		best, err := m.chooser.Auto(ctx)
		return best.Kind, err
	}}
	m.Policies = egress.New(egress.Config{
		Home: cfg.Home, Store: store, Registries: project.NewRegistries(cfg.Home.Registries()), Review: m.consent, Log: cfg.Log,
		Boxes: policyBoxes{m.boxes, func(ctx context.Context, b *box) error { return m.machines.applyPolicy(ctx, b) }},
	})
	m.Recipes = recipes.Recipes{Consent: m.consent, Images: m.Images}
	m.Capacity = capacity.Capacity{Allocated: m.boxes.allocated, Measure: resources.Measure, Log: cfg.Log}
	m.setup = setup.New(setup.Config{Home: cfg.Home, Images: m.Images, Results: cfg.Results, Team: cfg.Team, Registries: m.Policies, HasImage: image.Exists})
}

// makeBoxParts makes the parts that create boxes and through which boxes are used. All of them
// exist even if it fails.
func (m *Manager) makeBoxParts(cfg Config) (err error) {
	m.machines = &machines{home: cfg.Home, disk: m.disk, policies: m.Policies, log: cfg.Log, ctx: m.ctx, running: &m.running, changed: cfg.Changed, yield: cfg.Yield}
	m.places, err = cfg.Places(PlaceParts{m.Images, m.ctx, m.running.Go})
	m.maker = &maker{
		home: cfg.Home, boxes: m.boxes, disk: m.disk, machines: m.machines,
		stager:  staging.Stager{Overlay: m.setup.Overlay, Log: cfg.Log},
		remotes: remotes.Remotes{Home: cfg.Home, Binary: cfg.Client, Log: cfg.Log}, sources: cfg.Sources,
	}
	m.pool = pool.New(pool.Config[record, *box]{
		Want: cfg.Pool, Make: m.maker.makePooled, Live: func(b *box) bool { return b.place() != nil }, Remove: m.maker.remove, Log: cfg.Log,
	})
	m.maker.pool = m.pool
	m.conversations = &conversations.Store{Home: cfg.Home, Log: cfg.Log}
	m.Work = work.Work{Home: cfg.Home, Enter: func(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (work.Box, error) {
		b, err := m.findRunning(ctx, ref, progress)
		if err != nil {
			return work.Box{}, err
		}
		rec := b.record()
		open := func(ctx context.Context) (work.Guest, error) {
			return snapshot.Open(ctx, rec.address(m.home), rec.User)
		}
		return work.Box{ID: rec.Box.ID, Name: rec.Box.Name, Directory: rec.root(m.home), Commit: rec.Box.Commit, Workspace: rec.workspace(), Open: open}, nil
	}}
	m.Ports = serving.Ports{
		EnsureRunning: func(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (serving.Machine, error) {
			return machineOf(m.findRunning(ctx, ref, progress))
		},
		Find: func(ctx context.Context, ref api.BoxRef) (serving.Machine, error) {
			return machineOf(m.boxes.find(ctx, ref))
		},
	}
	m.Pruner = prune.Pruner{Home: cfg.Home, Boxes: prunableBoxes{m.boxes, m.removeIdle}, Templates: m.places.Templates, Images: m.Images}
	return err
}

// machineOf returns the machine of a box that was found. Conflict if the box has none.
func machineOf(b *box, err error) (serving.Machine, error) {
	if err != nil {
		return nil, err
	}
	p := b.place()
	if p == nil {
		return nil, notRunning(b.record())
	}
	if m, ok := p.(serving.Machine); ok {
		return m, nil
	}
	return nil, agentbox.Errorf(agentbox.Conflict, "%s isolation forwards no ports", b.record().Box.Isolation)
}

// kind is a kind of place. It may be called as soon as there are places.
func (m *Manager) kind(of agentbox.Isolation) (place.Kind, error) { return m.places.Kind(of) }

// Kinds are the kinds of places that boxes here can have.
func (m *Manager) Kinds() isolation.Chooser { return m.chooser }

// tidyEvery is how often failed removals are retried. They wait for a process to close a file, or
// for disk space, so seconds are soon enough.
const tidyEvery = 5 * time.Second

// runEvery calls do at an interval until the manager is closed, in a goroutine of m.running.
func (m *Manager) runEvery(d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// tidy passes over a box that something is done with. It may be a removal that is about to fail, after
// which the box is its user's again.
func (m *Manager) tidy() {
	for _, b := range m.boxes.all() {
		if !b.op.TryLock() {
			continue
		}
		if rec := b.record(); rec.Phase == phaseRemoving {
			if err := m.maker.removeLocked(b); err != nil {
				m.log.Error("cannot remove a box", "box", rec.Box.ID, "error", err)
			}
		}
		b.op.Unlock()
	}
}
