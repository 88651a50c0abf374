package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/resources"
)

// pool keeps machines restored, greeted and stopped ahead of need: a few for each template somebody used since the daemon
// started. A machine of the pool is leased once and never comes back.
type pool struct {
	m     *Manager
	want  int // machines per template, where no configuration says; negative: as many as the machine affords
	wake  chan struct{}
	mu    sync.Mutex
	hot   map[string]record // template key -> what a machine of it is made from
	ready map[string][]*box
	gone  bool
}

func newPool(m *Manager, want int) *pool {
	return &pool{m: m, want: want, wake: make(chan struct{}, 1), hot: map[string]record{}, ready: map[string][]*box{}}
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

// take leases a machine of the template if one is ready, and has the pool filled up again.
func (p *pool) take(key string) *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready[key]) > 0 {
		b := p.ready[key][0]
		p.ready[key] = p.ready[key][1:]
		if b.live() != nil {
			p.nudge()
			return b
		}
	}
	return nil
}

// heat tells the pool that boxes like rec are wanted here.
func (p *pool) heat(rec record) {
	if rec.Box.Template == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hot[rec.Box.Template] = rec
	p.nudge()
}

// wanted is how many machines to keep for boxes like rec: what its configuration says, else what suits this machine.
func (p *pool) wanted(rec record) int {
	if rec.Pool >= 0 {
		return rec.Pool
	}
	if p.want < 0 {
		return affordable()
	}
	return p.want
}

func (p *pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run fills the pool until the Manager closes.
func (p *pool) run() {
	for {
		select {
		case <-p.m.ctx.Done():
			return
		case <-p.wake:
		}
		// Whoever took a machine is about to use it: restoring the next one now would take their CPU.
		select {
		case <-p.m.ctx.Done():
			return
		case <-time.After(refillAfter):
		}
		p.trim()
		for rec, ok := p.next(); ok && p.m.ctx.Err() == nil; rec, ok = p.next() {
			if err := p.add(rec); err != nil {
				p.m.log.Error("cannot fill the pool", "template", short(rec.Box.Template), "error", err)
				break
			}
		}
	}
}

// trim ends machines that the machine no longer affords: the pool gives way before any box does.
func (p *pool) trim() {
	for _, b := range p.excess() {
		if err := p.m.remove(b); err != nil {
			p.m.log.Error("cannot end a machine of the pool", "box", b.record().Box.ID, "error", err)
		}
	}
}

// excess takes out of the pool what it has too many of.
func (p *pool) excess() []*box {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*box
	for key, list := range p.ready {
		n := min(len(list), p.wanted(p.hot[key]))
		out = append(out, list[n:]...)
		p.ready[key] = list[:n:n]
	}
	return out
}

// next is a template that has too few machines.
func (p *pool) next() (record, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, rec := range p.hot {
		if len(p.ready[key]) < p.wanted(rec) && !p.gone {
			return rec, true
		}
	}
	return record{}, false
}

// add restores one machine, greets its guest, warms it up for a lease with an empty workspace and stops its CPUs. The
// workspace is filled when a box needs it.
func (p *pool) add(like record) error {
	m := p.m
	rec := like
	rec.Phase, rec.Key, rec.Remote, rec.Life, rec.Workspace = phasePool, "", "", 1, 1
	rec.Box = agentbox.Box{
		ID: agentbox.NewBoxID(), Isolation: like.Box.Isolation, Accel: like.Box.Accel, Image: like.Box.Image, Template: like.Box.Template,
		CPUs: like.Box.CPUs, Memory: like.Box.Memory, Disk: like.Box.Disk, Created: time.Now().UTC(),
	}
	b := &box{rec: rec}
	b.op.Lock()
	defer b.op.Unlock()
	if err := m.commitLife(b, rec); err != nil {
		return err
	}
	m.put(b)
	if err := p.start(b); err != nil {
		return errors.Join(err, m.erase(b))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return m.erase(b)
	}
	p.ready[rec.Box.Template] = append(p.ready[rec.Box.Template], b)
	return nil
}

func (p *pool) start(b *box) error {
	m, rec := p.m, b.record()
	ctx, cancel := context.WithTimeout(m.ctx, bootTimeout)
	defer cancel()
	template, err := m.templates.openKey(ctx, rec, rec.Box.Template)
	if err != nil {
		return err
	}
	driver, err := m.chooser.Driver(rec.Box.Isolation)
	if err != nil {
		return err
	}
	if err := driver.NewWorkspace(ctx, rec.workspacePath(m.home), "", rec.Box.Disk); err != nil {
		return err
	}
	if err := m.startMachine(ctx, b, template, "", nil, nil); err != nil {
		return err
	}
	_, err = api.Call(ctx, b.live().client, api.SupervisorHold, api.None{}, nil)
	return err
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, list := range p.ready {
		n += len(list)
	}
	return n
}

// drain ends every machine of the pool; none is added afterwards.
func (p *pool) drain() {
	p.mu.Lock()
	p.gone = true
	ready := p.ready
	p.ready = map[string][]*box{}
	p.mu.Unlock()
	for _, list := range ready {
		for _, b := range list {
			if err := p.m.remove(b); err != nil {
				p.m.log.Error("cannot drain the pool", "box", b.record().Box.ID, "error", err)
			}
		}
	}
}
