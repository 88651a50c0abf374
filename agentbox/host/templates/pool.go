package templates

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentbox/agentbox/resources"
)

// PoolConfig is what a Pool needs to know of its machines, of type M, each made from an L. Make may
// take seconds, and is given a context that ends with BootTimeout. None of the functions may call
// the pool.
type PoolConfig[L, M any] struct {
	// Want: machines per template, where no configuration says; negative: as many as the machine
	// affords.
	Want   int
	Make   func(ctx context.Context, like L) (M, error)
	Live   func(M) bool
	Remove func(M) error
	Log    *slog.Logger
}

// Pool keeps machines restored, greeted and stopped ahead of need: a few for each template somebody
// used since the daemon started. A machine of the pool is leased once and never comes back. mu
// guards the maps. wake holds one token: several reasons to look are one. Machines are of type M so
// that the pool can be tested without any.
type Pool[L, M any] struct {
	PoolConfig[L, M]
	wake  chan struct{}
	mu    sync.Mutex
	hot   map[string]order[L] // by template
	ready map[string][]M
	dead  []M // have ended while they waited; what is left of them goes with the next round of Run
	gone  bool
	// withdrawals counts calls of Cool: a machine whose making began before one is not leased.
	withdrawals int
}

// order is what machines of a template are made from, and how many.
type order[L any] struct {
	want int // negative leaves it to the pool
	like L
	// withdrawals is Pool.withdrawals as next found it.
	withdrawals int
}

// NewPool gives an empty pool.
func NewPool[L, M any](cfg PoolConfig[L, M]) *Pool[L, M] {
	return &Pool[L, M]{PoolConfig: cfg, wake: make(chan struct{}, 1), hot: map[string]order[L]{}, ready: map[string][]M{}}
}

// refillAfter is how long the pool lets a new box have the machine to itself.
const refillAfter = 2 * time.Second

// affordable is the pool's size on this machine now.
func affordable() int {
	machine, err := resources.Measure()
	if err != nil {
		return 0
	}
	return machine.Pool()
}

// Take leases a machine of the template if one is ready, and has the pool filled up again. One that
// has ended meanwhile is passed over and removed later: a box that starts must not wait for that.
func (p *Pool[L, M]) Take(template string) (m M, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready[template]) > 0 {
		p.nudge()
		m := p.ready[template][0]
		p.ready[template] = p.ready[template][1:]
		if p.Live(m) {
			return m, true
		}
		p.dead = append(p.dead, m)
	}
	return m, false
}

// WarmUp tells the pool that boxes like this one are wanted here: so many as its configuration
// says, where that is not negative. Nothing is made for "", a box that was booted.
func (p *Pool[L, M]) WarmUp(template string, want int, like L) {
	if template == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hot[template] = order[L]{want: want, like: like}
	p.nudge()
}

// Cool ends the machines of a template that is not to be used any more, and makes no others.
func (p *Pool[L, M]) Cool(template string) error {
	p.mu.Lock()
	ready := p.ready[template]
	delete(p.ready, template)
	delete(p.hot, template)
	p.withdrawals++
	p.mu.Unlock()
	var errs []error
	for _, m := range ready {
		errs = append(errs, p.Remove(m))
	}
	return errors.Join(errs...)
}

// wanted is how many machines to keep: what a configuration says, else what suits this machine.
func (p *Pool[L, M]) wanted(o order[L]) int {
	if o.want >= 0 {
		return o.want
	}
	if p.Want < 0 {
		return affordable()
	}
	return p.Want
}

// nudge has Run look, now or after what it is doing.
func (p *Pool[L, M]) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run fills the pool until ctx ends. An error ends this round; the next box that is made begins
// another.
func (p *Pool[L, M]) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		// The box that took a machine is about to use it: restoring the next one now would take its
		// CPU.
		select {
		case <-ctx.Done():
			return
		case <-time.After(refillAfter):
		}
		p.trim()
		for template, o, ok := p.next(); ok && ctx.Err() == nil; template, o, ok = p.next() {
			if err := p.add(ctx, template, o); err != nil {
				p.Log.Error("cannot fill the pool", "template", Short(template), "error", err)
				break
			}
		}
	}
}

// trim ends machines that the machine no longer affords, as the pool gives way before any box does,
// and removes what those left that have ended by themselves.
// Remove is called without mu, as it takes its time.
func (p *Pool[L, M]) trim() {
	for _, m := range p.excess() {
		if err := p.Remove(m); err != nil {
			p.Log.Error("cannot end a machine of the pool", "error", err)
		}
	}
}

// excess takes out of the pool what it has too many of, and what does not live.
func (p *Pool[L, M]) excess() []M {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.dead
	p.dead = nil
	for template, list := range p.ready {
		n, live := p.wanted(p.hot[template]), []M(nil)
		for _, m := range list {
			if len(live) < n && p.Live(m) {
				live = append(live, m)
			} else {
				out = append(out, m)
			}
		}
		p.ready[template] = live
	}
	return out
}

// next is a template that has too few machines.
func (p *Pool[L, M]) next() (template string, o order[L], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for template, o := range p.hot {
		if len(p.ready[template]) < p.wanted(o) && !p.gone {
			o.withdrawals = p.withdrawals
			return template, o, true
		}
	}
	return "", o, false
}

// add makes one machine and puts it in, or removes it if it is not wanted any more.
func (p *Pool[L, M]) add(ctx context.Context, template string, o order[L]) error {
	ctx, cancel := context.WithTimeout(ctx, BootTimeout)
	defer cancel()
	m, err := p.Make(ctx, o.like)
	if err != nil {
		return err
	}
	return p.put(template, m, func() bool { return p.withdrawals == o.withdrawals })
}

// Put gives the pool a machine, which it removes when it takes none any more.
func (p *Pool[L, M]) Put(template string, m M) error {
	return p.put(template, m, func() bool { return true })
}

// put is Put for a machine that may not be wanted any more. wanted is called with mu held, Remove
// without.
func (p *Pool[L, M]) put(template string, m M, wanted func() bool) error {
	p.mu.Lock()
	take := !p.gone && wanted()
	if take {
		p.ready[template] = append(p.ready[template], m)
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

// Drain ends every machine of the pool; none is added afterwards. It is called when the daemon
// ends.
func (p *Pool[L, M]) Drain() {
	p.mu.Lock()
	p.gone = true
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
