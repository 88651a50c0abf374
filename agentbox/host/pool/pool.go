// Package pool keeps boxes' machines started ahead of need. It knows neither machines nor boxes.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentbox/agentbox/resources"
)

// Config is what a Pool needs to handle its machines, of type M, each made from an L. Make may
// take seconds; it bounds a boot by itself. None of the functions may call the pool.
type Config[L, M any] struct {
	// Want is how many machines to keep for each key if no configuration says; negative: as
	// many as this machine can afford.
	Want   int
	Make   func(ctx context.Context, like L) (M, error)
	Live   func(M) bool
	Remove func(M) error
	Log    *slog.Logger
}

// Pool keeps machines started, greeted and stopped ahead of need: a few for each key (place.Spec.Key) used
// since the daemon started. A machine is leased once and never returns. mu guards the fields below
// it. wake holds one token, so that several reasons to refill are one. The type parameters let
// tests run without machines.
type Pool[L, M any] struct {
	Config[L, M]
	wake    chan struct{}
	mu      sync.Mutex
	demands map[string]demand[L] // by key
	ready   map[string][]M
	dead    []M // ended while they waited; Run removes them
	drained bool
	// withdrawals counts calls of Withdraw: a machine whose making began before one is not leased.
	withdrawals int
}

// demand is what machines of a key are made from, and how many are wanted.
type demand[L any] struct {
	want  int // negative leaves it to the pool
	model L
	// withdrawals is Pool.withdrawals as next found it.
	withdrawals int
}

// New makes an empty pool.
func New[L, M any](cfg Config[L, M]) *Pool[L, M] {
	return &Pool[L, M]{Config: cfg, wake: make(chan struct{}, 1), demands: map[string]demand[L]{}, ready: map[string][]M{}}
}

// refillDelay is how long the pool leaves the CPUs to a new box before it refills.
const refillDelay = 2 * time.Second

// affordable is the size of the pool that this machine can afford now.
func affordable() int {
	machine, err := resources.Measure()
	if err != nil {
		return 0
	}
	return machine.Pool()
}

// Take leases a machine of the key if one is ready, and has the pool refilled. A machine that
// has ended is skipped and removed later, so that a box that starts need not wait for that.
func (p *Pool[L, M]) Take(key string) (m M, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready[key]) > 0 {
		p.signal()
		m := p.ready[key][0]
		p.ready[key] = p.ready[key][1:]
		if p.Live(m) {
			return m, true
		}
		p.dead = append(p.dead, m)
	}
	return m, false
}

// WarmUp tells the pool to keep machines for boxes like this one: want of them, or its own choice
// if want is negative. It does nothing for key "", a box that was booted although its kind has
// templates.
func (p *Pool[L, M]) WarmUp(key string, want int, like L) {
	if key == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.demands[key] = demand[L]{want: want, model: like}
	p.signal()
}

// Withdraw removes the machines of a key whose template must not be used any more, and makes no more of
// them.
func (p *Pool[L, M]) Withdraw(key string) error {
	p.mu.Lock()
	ready := p.ready[key]
	delete(p.ready, key)
	delete(p.demands, key)
	p.withdrawals++
	p.mu.Unlock()
	var errs []error
	for _, m := range ready {
		errs = append(errs, p.Remove(m))
	}
	return errors.Join(errs...)
}

// wanted is how many machines to keep: what a configuration says, else what suits this machine.
func (p *Pool[L, M]) wanted(o demand[L]) int {
	if o.want >= 0 {
		return o.want
	}
	if p.Want < 0 {
		return affordable()
	}
	return p.Want
}

// signal makes Run check the pool, now or after what it is doing.
func (p *Pool[L, M]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run fills the pool until ctx ends. An error ends a round; the next new box starts another.
func (p *Pool[L, M]) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		// Starting the next machine now would take CPU from the box that just got one.
		select {
		case <-ctx.Done():
			return
		case <-time.After(refillDelay):
		}
		p.trim()
		for key, o, ok := p.next(); ok && ctx.Err() == nil; key, o, ok = p.next() {
			if err := p.add(ctx, key, o); err != nil {
				p.Log.Error("cannot fill the pool", "key", key, "error", err)
				break
			}
		}
	}
}

// trim removes machines that ended by themselves, and those that this machine can no longer afford:
// the pool makes room before any box does. It calls Remove without mu, since that takes a while.
func (p *Pool[L, M]) trim() {
	for _, m := range p.excess() {
		if err := p.Remove(m); err != nil {
			p.Log.Error("cannot end a machine of the pool", "error", err)
		}
	}
}

// excess takes superfluous and ended machines out of the pool.
func (p *Pool[L, M]) excess() []M {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.dead
	p.dead = nil
	for key, list := range p.ready {
		n, live := p.wanted(p.demands[key]), []M(nil)
		for _, m := range list {
			if len(live) < n && p.Live(m) {
				live = append(live, m)
			} else {
				out = append(out, m)
			}
		}
		p.ready[key] = live
	}
	return out
}

// next returns a key that has too few machines.
func (p *Pool[L, M]) next() (key string, o demand[L], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, o := range p.demands {
		if len(p.ready[key]) < p.wanted(o) && !p.drained {
			o.withdrawals = p.withdrawals
			return key, o, true
		}
	}
	return "", o, false
}

// add makes a machine for the pool, or removes it if its template was withdrawn meanwhile.
func (p *Pool[L, M]) add(ctx context.Context, key string, o demand[L]) error {
	m, err := p.Make(ctx, o.model)
	if err != nil {
		return err
	}
	return p.put(key, m, func() bool { return p.withdrawals == o.withdrawals })
}

// Put adds a machine to the pool, or removes it if the pool was drained.
func (p *Pool[L, M]) Put(key string, m M) error {
	return p.put(key, m, func() bool { return true })
}

// put is Put for a machine that may not be wanted any more. It calls wanted with mu held.
func (p *Pool[L, M]) put(key string, m M, wanted func() bool) error {
	p.mu.Lock()
	take := !p.drained && wanted()
	if take {
		p.ready[key] = append(p.ready[key], m)
	}
	p.mu.Unlock()
	if take {
		return nil
	}
	return p.Remove(m)
}

// Size is how many machines wait.
func (p *Pool[L, M]) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, list := range p.ready {
		n += len(list)
	}
	return n
}

// Drain removes every machine of the pool, for good. It is called when the daemon ends.
func (p *Pool[L, M]) Drain() {
	p.mu.Lock()
	p.drained = true
	all := p.dead
	for _, list := range p.ready {
		all = append(all, list...)
	}
	p.dead, p.ready = nil, map[string][]M{}
	p.mu.Unlock()
	for _, m := range all {
		if err := p.Remove(m); err != nil {
			p.Log.Error("cannot drain the pool", "error", err)
		}
	}
}
