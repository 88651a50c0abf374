package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// withTaskLimits are limits with those that a task was submitted with over them.
func withTaskLimits(l api.Limits, t agentbox.TaskLimits) api.Limits {
	if t.Wall > 0 {
		l.Wall = t.Wall
	}
	if t.Idle > 0 {
		l.Idle = t.Idle
	}
	if t.CPU > 0 {
		l.CPU = t.CPU
	}
	return l
}

// Unlimit lifts the limits of time and CPU of a box, now and for its next machines, so that its
// work can be looked at.
func (m *Manager) Unlimit(ctx context.Context, ref api.BoxRef) error {
	b, err := m.find(ctx, ref)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Limits.Wall == 0 && rec.Limits.Idle == 0 && rec.Limits.CPU == 0 {
		return nil
	}
	rec.Limits.Wall, rec.Limits.Idle, rec.Limits.CPU = 0, 0, 0
	if err := writeRecord(m.home, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	if b.live() == nil {
		return nil
	}
	return m.applyPolicy(ctx, b)
}

// Stop ends the machine of a box at once. The workspace stays.
func (m *Manager) Stop(ctx context.Context, ref api.BoxRef) error {
	b, err := m.find(ctx, ref)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	s := b.live()
	if err := m.stop(s, b.record().names(m.home), stopGrace); err != nil {
		return err
	}
	b.set(func(b *box) {
		if b.sup == s {
			b.sup = nil
		}
	})
	return nil
}
