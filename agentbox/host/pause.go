package host

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/supervisors"
)

// Pause saves a box's machine to disk and ends it: nothing of it stays in memory. A box that is
// paused already is fine; one that has no machine, or could not be restored here, is Conflict. The
// save is complete, by one rename of the supervisor's, before the machine ends, so a crash leaves
// either the machine or the save.
func (m *Manager) Pause(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	return m.operate(ctx, ref, func(b *box) error {
		rec := b.record()
		if b.state(m.home) == agentbox.Paused {
			return nil
		}
		s := b.live()
		if s == nil {
			return notRunning(rec)
		}
		if err := m.templates.Savable(ctx, rec.machine(m.home), rec.Box.Template, "paused"); err != nil {
			return err
		}
		m.keepHistory(ctx, b, progress)
		end := progress.Begin("pause", rec.Box.Name)
		if _, err := supervisors.Ask(ctx, s, api.SupervisorPause, api.SaveRequest{Dir: rec.names(m.home).Saved()}); err != nil {
			return agentbox.OrNoSpace(err)
		}
		<-s.Gone
		b.ended(s)
		end("")
		return nil
	})
}

// notRunning is the failure of what needs a machine.
func notRunning(rec record) error {
	return agentbox.Errorf(agentbox.Conflict, "box %s is not running", rec.Box.Name).WithHint("agentbox resume %s starts it", rec.Box.Name)
}

// Resume makes a paused box go on where it was. A box that is stopped starts afresh, one that runs
// goes on.
func (m *Manager) Resume(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	b, err := m.awake(ctx, ref, progress)
	if err != nil {
		return agentbox.Box{}, err
	}
	return m.describe(ctx, b, brief)
}

// operate runs f with the box to itself (op held) and describes the box afterwards. f is not run
// for a box that was removed while it waited.
func (m *Manager) operate(ctx context.Context, ref api.BoxRef, f func(b *box) error) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if rec := b.record(); rec.Phase != phaseReady {
		return agentbox.Box{}, agentbox.Errorf(agentbox.NotFound, "box %s was removed", rec.Box.ID)
	}
	if err := f(b); err != nil {
		return agentbox.Box{}, err
	}
	return m.describe(ctx, b, brief)
}

// resume restores the saved machine. The caller has the box to itself.
//
// The saved state fits the disks only until the machine runs again, so it is renamed first. A
// failure before the machine runs puts it back; a crash after leaves a box without a machine and
// with its workspace, see settle.
func (m *Manager) resume(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	names := rec.names(m.home)
	if _, err := os.Stat(names.Saved()); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "the saved machine of box %s cannot be read: %w", rec.Box.Name, err).
			WithHint("nothing was changed: try again when it can, or agentbox reset %s drops it and keeps the workspace", rec.Box.Name)
	}
	template, err := m.templates.OpenKey(ctx, rec.machine(m.home), rec.Box.Template)
	if err != nil {
		return unusable(rec, err)
	}
	tellEnd(rec, progress)
	rec.Box.Lease, rec.Box.Ended = newLease(), nil
	if err := m.disk.begin(b, rec); err != nil {
		return err
	}
	if err := os.Rename(names.Saved(), names.Resuming()); err != nil {
		return err
	}
	if err := m.machines.begin(ctx, b, beginning{template: template, saved: names.Resuming()}, progress); err != nil {
		back := os.Rename(names.Resuming(), names.Saved())
		if agentbox.CodeOf(err) == agentbox.Corrupt {
			return unusable(rec, errors.Join(err, back))
		}
		return errors.Join(agentbox.OrNoSpace(err), back)
	}
	return errors.Join(os.RemoveAll(names.Resuming()), m.machines.restored(ctx, b, progress))
}

// unusable tells how to go on without a saved machine that cannot be restored.
func unusable(rec record, err error) error {
	e := agentbox.AsError(err)
	return agentbox.Errorf(agentbox.Corrupt, "box %s cannot be resumed: %w", rec.Box.Name, e).
		WithHint("agentbox reset %s drops the saved machine and keeps the workspace", rec.Box.Name)
}
