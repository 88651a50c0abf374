package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// Pause saves a box's machine to disk and ends it; nothing of it stays in memory. One that cannot be
// saved stands still in memory instead. Pausing a paused box succeeds. Conflict for a box without a
// machine, or one that could not be restored here. The supervisor completes the save by one rename
// before it ends the machine, so a crash leaves either the machine or the save.
func (m *Manager) Pause(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	return m.operate(ctx, ref, func(b *box) error { return pause(ctx, m, b, progress) })
}

// pause is Pause for callers that hold op.
func pause(ctx context.Context, m *Manager, b *box, progress agentbox.Progress) error {
	if b.state(m.disk) == agentbox.Paused {
		return nil
	}
	p := b.place()
	if freezer, ok := p.(place.Freezer); ok {
		return m.freeze(ctx, b, freezer, progress)
	}
	saver, err := m.disk.saver(ctx, b, "paused")
	if err != nil {
		return err
	}
	m.keepHistory(ctx, b, progress)
	end := progress.Begin("pause", b.record().Box.Name)
	if err := saver.Pause(ctx); err != nil {
		return err
	}
	b.ended(p)
	end("")
	return nil
}

func (m *Manager) freeze(ctx context.Context, b *box, p place.Freezer, progress agentbox.Progress) error {
	name := b.record().Box.Name
	m.keepHistory(ctx, b, progress)
	end := progress.Begin("freeze", name)
	if err := p.Freeze(ctx); err != nil {
		return err
	}
	b.set(func(b *box) { b.still = b.live })
	end("")
	progress.Note(name + " stands still in memory: it uses no processor, ends with this machine, and goes on with the next command")
	return nil
}

// thaw lets a box that stands still in memory go on, under the policy as it is now.
func thaw(ctx context.Context, b *box, p place.Freezer) error {
	if err := p.Thaw(ctx); err != nil {
		return err
	}
	b.set(func(b *box) { b.still = nil })
	return b.renew(ctx)
}

// notRunning is the error of an operation that needs a machine.
func notRunning(rec record) error {
	return agentbox.Errorf(agentbox.Conflict, "box %s is not running", rec.Box.Name).WithHint("agentbox resume %s starts it", rec.Box.Name)
}

// Halt stops the machine of a running box at once, or lets it go on: while somebody else needs this
// machine. Conflict for a box without a machine, or of a kind that cannot.
func Halt(ctx context.Context, m *Manager, ref api.BoxRef, halted bool) error {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return err
	}
	h, ok := b.place().(place.Halter)
	if !ok {
		return notRunning(b.record())
	}
	return h.Halt(ctx, halted)
}

// Resume continues a paused box where it was. A stopped box starts afresh; a running one is left
// alone.
func (m *Manager) Resume(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	b, err := m.findRunning(ctx, ref, progress)
	if err != nil {
		return agentbox.Box{}, err
	}
	return m.describe(ctx, b, brief), nil
}

// operate runs f while it holds the box's op, and describes the box afterwards. NotFound, without
// running f, if the box was removed meanwhile.
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
	return m.describe(ctx, b, brief), nil
}

// resume restores the saved machine. The caller has the box to itself.
func (m *Manager) resume(ctx context.Context, b *box, progress agentbox.Progress) error {
	if freezer, ok := b.place().(place.Freezer); ok {
		return thaw(ctx, b, freezer)
	}
	rec := b.record()
	if kept, err := m.disk.kept(rec); kept != place.Whole {
		return agentbox.Errorf(agentbox.Unavailable, "the saved machine of box %s cannot be read: %w", rec.Box.Name, cmp.Or(err, fs.ErrNotExist)).
			WithHint("nothing was changed: try again when it can, or agentbox reset %s drops it and keeps the workspace", rec.Box.Name)
	}
	if err := m.disk.checkRestorable(ctx, rec); err != nil {
		return unrestorable(rec, err)
	}
	reportEnd(rec, progress)
	return m.machines.resume(ctx, b, progress)
}

// resume restores the saved machine of a box, over its template if there is one. The caller holds
// op.
//
// The saved memory fits the disks only until the guest runs, so the supervisor renames it before
// that, and back if the guest never ran. What still has its old name afterwards can be resumed
// again; what has not is dropped, and the box is stopped with its workspace.
func (m *machines) resume(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if rec.MovedTo != nil { // whoever asks, and for whatever
		return movedAway(rec)
	}
	if err := m.disk.dropKept(rec, false); err != nil { // one that could not be dropped
		return err
	}
	rec.Box.Lease, rec.Box.Ended = newLease(), nil
	if err := m.disk.prepare(b, rec); err != nil {
		return err
	}
	if err := m.start(ctx, b, launch{from: place.From{Paused: true}}, progress); err != nil {
		if kept, unknown := m.disk.kept(rec); kept == place.Spent || unknown != nil {
			return errors.Join(lostMemory(rec, err), m.dropMemory(b))
		}
		if agentbox.CodeOf(err) == agentbox.Corrupt {
			return unrestorable(rec, err)
		}
		return agentbox.MarkNoSpace(err)
	}
	ctx, cancel := withGrace(ctx, resumeGrace)
	defer cancel()
	return errors.Join(m.disk.dropKept(rec, false), m.restored(ctx, b, progress))
}

// dropMemory drops the memory of a box whose guest may have run since, and records why.
func (m *machines) dropMemory(b *box) error {
	rec := b.record()
	rec.Box.Ended = &agentbox.End{Cause: agentbox.EndResumed}
	return errors.Join(m.disk.dropKept(rec, false), b.commit(m.home, rec))
}

// resumeGrace is how long a resume goes on for a caller who has gone away: to end a machine that
// has just been restored would cost everything that runs in it.
const resumeGrace = time.Minute

// withGrace is a context that ends a grace later than ctx. cancel frees what it holds.
func withGrace(ctx context.Context, grace time.Duration) (late context.Context, cancel func()) {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(grace):
			end()
		}
	})
	return late, func() { stop(); end() }
}

// lostMemory is the failure of a resume whose guest may have run.
func lostMemory(rec record, err error) error {
	return agentbox.Errorf(agentbox.Internal, "box %s could not be resumed, and what ran in it is lost: %w", rec.Box.Name, err).
		WithHint("its workspace is kept: agentbox resume %s starts it afresh", rec.Box.Name)
}

// unrestorable is the failure of a resume whose saved machine cannot be restored.
func unrestorable(rec record, err error) error {
	return agentbox.Classify(agentbox.Corrupt, "box %s cannot be resumed: %w", rec.Box.Name, err).
		WithHint("agentbox reset %s drops the saved machine and keeps the workspace", rec.Box.Name)
}
