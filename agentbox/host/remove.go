package host

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// Remove removes a box: machine, runtime, checkpoints and workspace. It returns the box as it was.
// It keeps the conversations of agents, and does not look for unsaved work; the command line asks
// about that first (Unsaved).
func (m *Manager) Remove(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	shown := m.describe(ctx, b, brief)
	b.op.Lock()
	defer b.op.Unlock()
	if err := m.keepLastHistory(ctx, b, progress); err != nil {
		return shown, err
	}
	err = m.maker.removeLocked(b)
	if agentbox.KindOf(shown.Isolation).Elsewhere && agentbox.CodeOf(err) == agentbox.Unavailable {
		e := agentbox.AsError(err)
		err = e.WithHint("%s; if the machine is gone for good: agentbox rm --forget %s", e.Hint, shown.Name)
	}
	return shown, err
}

// Forget removes what is here of a box on another machine, for one that does not answer any more: it
// is asked nothing, and all that is there stays. Invalid for any other box.
func (m *Manager) Forget(ctx context.Context, ref api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if !agentbox.KindOf(rec.Box.Isolation).Elsewhere {
		return rec.Box, agentbox.Errorf(agentbox.Invalid, "box %s is on this machine, where nothing of it could stay", rec.Box.Name).WithHint("agentbox rm %s", rec.Box.Name)
	}
	if p, ok := b.place().(place.Leaver); ok {
		if err := p.Leave(); err != nil {
			return rec.Box, err
		}
		b.ended(b.place())
	}
	m.maker.remotes.Remove(rec.Remote, rec.Box)
	return rec.Box, m.maker.dropLocked(b)
}

// remove is removeLocked for callers that do not hold op.
func (m *maker) remove(b *box) error {
	b.op.Lock()
	defer b.op.Unlock()
	return m.removeLocked(b)
}

// removeIdle is Remove for a box that had no machine a moment ago: Conflict if it has one now.
func (m *Manager) removeIdle(ctx context.Context, b *box, progress agentbox.Progress) error {
	b.op.Lock()
	defer b.op.Unlock()
	if b.place() != nil {
		return agentbox.Errorf(agentbox.Conflict, "box %s runs again, and stays", b.record().Box.Name)
	}
	if err := m.keepLastHistory(ctx, b, progress); err != nil {
		return err
	}
	return m.maker.removeLocked(b)
}

// removeLocked removes all of a box; the caller holds op. The record says first that the box is
// being removed and is among the last files to go, so that the next daemon can finish, or tidy can
// retry. It may be repeated after a failure, and any part of the box may be missing. The table
// forgets the box only when everything is gone.
func (m *maker) removeLocked(b *box) error {
	was := b.record().Phase
	if rec := b.record(); rec.Arrived != nil && rec.Arrived.Back != nil && (rec.Arrived.Step == api.StepAsked || rec.Arrived.Step == api.StepLeaving) {
		return waitsForWord(rec)
	}
	err := b.change(m.home, func(rec *record) { rec.Phase = phaseRemoving })
	rec := b.record()
	if err != nil && !errors.Is(err, os.ErrNotExist) && agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if err := b.endWithin(0); err != nil {
		// Nothing of it is gone yet, and its user sees it again. If this cannot be written, the next
		// daemon finishes.
		_ = b.change(m.home, func(rec *record) { rec.Phase = was })
		return err
	}
	m.remotes.Remove(rec.Remote, rec.Box)
	kind, err := m.disk.kind(rec)
	if err != nil {
		return err
	}
	if err := kind.Remove(context.Background(), rec.spec()); err != nil {
		if agentbox.KindOf(rec.Box.Isolation).Elsewhere { // its machine may be gone for good: Forget
			_ = b.change(m.home, func(rec *record) { rec.Phase = was })
		}
		return err
	}
	return m.dropLocked(b)
}

// dropLocked removes what no kind knows of a box: the record and what is kept beside it.
func (m *maker) dropLocked(b *box) error {
	rec := b.record()
	if err := errors.Join(os.RemoveAll(rec.names(m.home).Dir), os.RemoveAll(rec.names(m.home).Run)); err != nil {
		return err
	}
	m.boxes.drop(rec.Box.ID)
	return nil
}
