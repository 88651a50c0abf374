package host

import (
	"context"
	"errors"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// Rollback takes a box back to a checkpoint, the latest if none is named: memory, processes,
// runtime and workspace. Everything since is lost. The checkpoint stays.
func (m *Manager) Rollback(ctx context.Context, req api.RollbackRequest, progress agentbox.Progress) (agentbox.Box, error) {
	return m.operate(ctx, req.BoxRef, func(b *box) error {
		c, err := chooseCheckpoint(b.record(), req.Checkpoint)
		if err != nil {
			return err
		}
		return m.rollback(ctx, b, c, progress)
	})
}

// chooseCheckpoint finds a checkpoint by id, name or unique prefix of an id; "" is the latest.
// NotFound, with a hint, if there is none.
func chooseCheckpoint(rec record, ref string) (agentbox.Checkpoint, error) {
	all := rec.Box.Checkpoint
	if len(all) == 0 {
		return agentbox.Checkpoint{}, agentbox.Errorf(agentbox.NotFound, "box %s has no checkpoint", rec.Box.Name).
			WithHint("agentbox checkpoint %s makes one", rec.Box.Name)
	}
	if ref == "" {
		return all[len(all)-1], nil
	}
	var found []agentbox.Checkpoint
	for _, c := range all {
		if c.ID == ref || c.Name == ref {
			return c, nil
		}
		if strings.HasPrefix(c.ID, ref) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return agentbox.Checkpoint{}, agentbox.Errorf(agentbox.NotFound, "box %s has no checkpoint %q", rec.Box.Name, ref).
			WithHint("agentbox show %s lists them", rec.Box.Name)
	}
	return found[0], nil
}

// rollback restores a checkpoint in place of the box's machine. The caller holds op.
func (m *Manager) rollback(ctx context.Context, b *box, c agentbox.Checkpoint, progress agentbox.Progress) error {
	rec := b.record()
	// Checked before anything ends: the saved memory fits machines of its key and no others.
	if c.Template != "" && c.Template != rec.Box.Template {
		return agentbox.Errorf(agentbox.Conflict, "checkpoint %s was made of a machine with another image, size or version than box %s has now", c.ID, rec.Box.Name).
			WithHint("the box is as it was; a reset with the settings of that time makes the checkpoint fit again")
	}
	if err := m.disk.checkRestorable(ctx, rec); err != nil {
		return err
	}
	if err := errors.Join(b.end(), giveUp(m, b)); err != nil {
		return err
	}
	return m.machines.rollback(ctx, b, c.ID, progress)
}

// rollback restores a checkpoint beside the present workspace and life, and only then drops
// those: wherever it is cut short, the box still has the workspace that it had. The new record is
// written last, when the new machine runs: until then the next daemon finds the old record and takes
// the new machine for orphaned. The box's machine has ended, and the caller holds op.
func (m *machines) rollback(ctx context.Context, b *box, checkpoint string, progress agentbox.Progress) error {
	before := b.record()
	rec := before
	rec.Life, rec.Workspace = rec.Life+1, rec.Workspace+1
	rec.Box.Lease, rec.Box.Ended, rec.MovedTo = newLease(), nil, nil
	b.set(func(b *box) { b.rec = rec })
	// If this fails, the old record is valid again and the new files are swept away. The box is
	// stopped and has its workspace.
	if err := m.start(ctx, b, launch{from: place.From{Checkpoint: checkpoint}}, progress); err != nil {
		b.set(func(b *box) { b.rec = before })
		return errors.Join(agentbox.MarkNoSpace(err), m.disk.sweep(before, false))
	}
	// Before the record says that the new machine is the box's: the pause of the old one would be
	// restored over the new one's disks.
	if err := m.disk.dropKept(rec, true); err != nil {
		return err
	}
	if err := b.change(m.home, func(*record) {}); err != nil {
		return err
	}
	return errors.Join(m.disk.sweep(rec, false), m.restored(ctx, b, progress))
}

// Checkpoint saves memory, disks and workspace of a box, to roll back to. The box stands still
// meanwhile and goes on. The save is complete before the record names it, so a checkpoint that is
// listed can be rolled back to.
func (m *Manager) Checkpoint(ctx context.Context, req api.CheckpointRequest, progress agentbox.Progress) (agentbox.Checkpoint, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return agentbox.Checkpoint{}, err
		}
	}
	b, err := m.boxes.find(ctx, req.BoxRef)
	if err != nil {
		return agentbox.Checkpoint{}, err
	}
	// The saved state of a pause fits the disks only until the machine runs again.
	if b.state(m.disk) == agentbox.Paused {
		if err := m.ensureRunning(ctx, b, progress); err != nil {
			return agentbox.Checkpoint{}, err
		}
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	// A checkpoint that could never be restored must not be listed.
	saver, err := m.disk.saver(ctx, b, "checkpointed")
	if err != nil {
		return agentbox.Checkpoint{}, err
	}
	for _, c := range rec.Box.Checkpoint {
		if req.Name != "" && c.Name == req.Name {
			return agentbox.Checkpoint{}, agentbox.Errorf(agentbox.Exists, "box %s already has a checkpoint %s", rec.Box.Name, c.Name)
		}
	}
	c := agentbox.Checkpoint{ID: agentbox.NewBoxID().String(), Name: req.Name, Template: rec.Box.Template, Created: time.Now().UTC()}
	end := progress.Begin("checkpoint", rec.Box.Name)
	if c.Bytes, err = saver.Checkpoint(ctx, c.ID); err != nil {
		return c, err
	}
	end("")
	// A new slice: copies of the record share the old one.
	rec.Box.Checkpoint = append(rec.Box.Checkpoint[:len(rec.Box.Checkpoint):len(rec.Box.Checkpoint)], c)
	if err := b.commit(m.home, rec); err != nil {
		return c, err // the next sweep drops what no record names
	}
	return c, nil
}
