package host

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// withTaskLimits are the limits of a configuration, replaced by those that a task was submitted
// with. The user who submits may allow more than the repository does.
func withTaskLimits(l place.Limits, t agentbox.TaskLimits) place.Limits {
	if t.Wall > 0 {
		l.Wall = t.Wall
	}
	if t.Idle > 0 {
		l.Idle = t.Idle
	}
	if t.CPU > 0 {
		l.CPU = t.CPU
	}
	if t.Tokens > 0 {
		l.Tokens = t.Tokens
	}
	if t.Cost > 0 {
		l.Cost = t.Cost
	}
	return l
}

// LiftLimits lifts the limits of time, CPU and cost of a box, for its present and later machines.
// It is for an attempt that a limit has ended, whose work has yet to be taken out of the box.
func (m *Manager) LiftLimits(ctx context.Context, ref api.BoxRef) error {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	unlimited := rec.Limits
	unlimited.Wall, unlimited.Idle, unlimited.CPU, unlimited.Tokens, unlimited.Cost = 0, 0, 0, 0, 0
	if rec.Limits == unlimited {
		return nil
	}
	rec.Limits = unlimited
	if err := b.commit(m.home, rec); err != nil {
		return err
	}
	return errors.Join(m.machines.limit(ctx, b.place(), rec), m.machines.applyPolicy(ctx, b))
}

// Stop ends the machine of a box and keeps the workspace. No end is recorded, since somebody asked
// for it.
func (m *Manager) Stop(ctx context.Context, ref api.BoxRef) error {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	return b.end()
}
