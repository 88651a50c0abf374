package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm"
	"agentbox/vmm/image"
)

// Config is what a Manager needs.
type Config struct {
	Home   home.Home
	Binary string // this program's file, for supervisors and git remotes
	Images *image.Store
	// Driver opens the driver of a kind; the Manager remembers what it gave.
	Driver func(agentbox.Isolation) (vmm.Driver, error)
	// Kernel finds or fetches the kernel that override asks for ("" for the default).
	Kernel func(ctx context.Context, override string, progress agentbox.Progress) (dir string, err error)
	Shelf  Shelf // what setup made, by key; nil where every box runs setup itself
	// Origins keeps images and gets them from elsewhere; nil where they are made here only.
	Origins Origins
	Team    Team // the other machines; nil: none are asked
	Pool    int  // machines kept ready per template; -1 sizes it by this machine
	Log     *slog.Logger
}

// Manager keeps the boxes of one home. One process at a time may have one for a home; the daemon's lock sees to it.
type Manager struct {
	home    home.Home
	binary  string
	images  *image.Store
	shelf   Shelf
	origins Origins
	team    Team
	driver  func(agentbox.Isolation) (vmm.Driver, error)
	kernel  func(context.Context, string, agentbox.Progress) (string, error)
	log     *slog.Logger

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines of the Manager

	templates *templates
	pool      *pool
	feeds     *feeds
	policies  *policies

	fresh  chan struct{} // an image was made or got
	unread []string      // what a box that was not taken up is, and why; set before anybody asks

	mu      sync.Mutex
	boxes   map[agentbox.BoxID]*box
	keys    map[string]*sync.Mutex // one up at a time for each key
	naming  sync.Mutex             // held while a box gets its name
	holders map[agentbox.BoxID]int // clients that hold an ephemeral box
}

// box is one box in memory. op orders operations on it; mu guards the fields and is never held across a wait.
type box struct {
	op sync.Mutex

	mu      sync.Mutex
	rec     record
	sup     *supervised // nil without a machine
	renewed time.Time   // when its lease last was

	known time.Time // since when this daemon has it; guarded by the Manager's mu
}

func (b *box) record() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

func (b *box) live() *supervised {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sup
}

func (b *box) set(f func(b *box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// New makes a Manager and takes up what an earlier one left: running boxes are adopted, half-done work is finished or
// undone.
func New(cfg Config) (*Manager, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{
		home: cfg.Home, binary: cfg.Binary, images: cfg.Images, shelf: cfg.Shelf, origins: cfg.Origins, team: cfg.Team, driver: cfg.Driver, kernel: cfg.Kernel, log: cfg.Log,
		ctx: ctx, cancel: cancel,
		policies: newPolicies(cfg.Home), fresh: make(chan struct{}, 1),
		boxes: map[agentbox.BoxID]*box{}, keys: map[string]*sync.Mutex{}, holders: map[agentbox.BoxID]int{},
	}
	m.templates = newTemplates(m)
	m.pool = newPool(m, cfg.Pool)
	m.feeds = newFeeds(m)
	if err := errors.Join(m.templates.cleanup(), m.adoptAll()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.running.Go(func() { m.every(tidyEvery, m.tidy) })
	m.running.Go(func() { m.tellBoxes(func(record) bool { return true }, nil) }) // of a change that the last daemon did not live to tell
	m.running.Go(m.pool.run)
	m.running.Go(func() { machineRoots() }) // the first box need not wait for them
	m.running.Go(m.feeds.resume)
	if m.origins != nil {
		m.running.Go(func() {
			var seen map[agentbox.Digest]bool
			m.every(keepEvery, func() { seen = m.keepImages(seen) })
		})
		m.running.Go(m.keepFresh)
	}
	return m, nil
}

// Close stops the Manager and none of the boxes. The pool's machines go: nobody has a lease on them.
func (m *Manager) Close() error {
	m.cancel()
	m.pool.drain()
	m.templates.close()
	m.forgetSupervisors()
	m.running.Wait()
	return m.feeds.close()
}

// forgetSupervisors lets go of processes that outlive us.
func (m *Manager) forgetSupervisors() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.boxes {
		if s := b.live(); s != nil {
			s.client.Close()
		}
	}
}

const tidyEvery = 5 * time.Second

// every does something again and again until the manager is closed.
func (m *Manager) every(d time.Duration, do func()) {
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

// tidy removes ephemeral boxes nobody holds and retries removals that failed.
func (m *Manager) tidy() {
	for _, b := range m.all() {
		rec := b.record()
		if rec.Phase == phaseRemoving || rec.Ephemeral && rec.Phase == phaseReady && !m.held(b, ephemeralGrace) {
			if err := m.remove(b); err != nil {
				m.log.Error("cannot remove a box", "box", rec.Box.ID, "error", err)
			}
		}
	}
}

func (m *Manager) all() []*box {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*box, 0, len(m.boxes))
	for _, b := range m.boxes {
		out = append(out, b)
	}
	return out
}

func (m *Manager) put(b *box) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.known = time.Now()
	m.boxes[b.record().Box.ID] = b
}

// keyLock orders the ups of one key, so that two at once get the same box.
func (m *Manager) keyLock(key string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[key] == nil {
		m.keys[key] = &sync.Mutex{}
	}
	return m.keys[key]
}
