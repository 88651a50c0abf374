package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/templates"
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
	template, err := m.templates.OpenKey(ctx, rec.machine(m.home), rec.Box.Template)
	if err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return err
	}
	return m.machines.rollback(ctx, b, filepath.Join(rec.names(m.home).Checkpoints(), c.ID), template, progress)
}

// rollback restores the checkpoint in dir beside the present workspace and life, and only then drops
// those: wherever it is cut short, the box still has the workspace that it had. The new record is
// written last, when the new machine runs: until then the next daemon finds the old record and takes
// the new machine for orphaned. The box's machine has ended, and the caller holds op.
func (m *machines) rollback(ctx context.Context, b *box, dir string, template *templates.Template, progress agentbox.Progress) error {
	before := b.record()
	rec := before
	rec.Life, rec.Workspace = rec.Life+1, rec.Workspace+1
	rec.Box.Lease, rec.Box.Ended = newLease(), nil
	if err := m.disk.makeDirs(rec); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	b.set(func(b *box) { b.rec = rec })
	// If this fails, the old record is valid again and the new files are swept away. The box is
	// stopped and has its workspace.
	if err := m.start(ctx, b, launch{template: template, saved: dir}, progress); err != nil {
		b.set(func(b *box) { b.rec = before })
		return errors.Join(agentbox.MarkNoSpace(err), m.disk.sweep(before))
	}
	// Before the record says that the new machine is the box's: the pause of the old one would be
	// restored over the new one's disks.
	if err := m.disk.dropSaved(rec); err != nil {
		return err
	}
	if err := b.change(m.home, func(*record) {}); err != nil {
		return err
	}
	return errors.Join(m.disk.sweep(rec), m.restored(ctx, b, progress))
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
	if b.state(m.home) == agentbox.Paused {
		if err := m.ensureRunning(ctx, b, progress); err != nil {
			return agentbox.Checkpoint{}, err
		}
	}
	b.op.Lock()
	defer b.op.Unlock()
	rec, s := b.record(), b.supervisor()
	if s == nil {
		return agentbox.Checkpoint{}, notRunning(rec)
	}
	for _, c := range rec.Box.Checkpoint {
		if req.Name != "" && c.Name == req.Name {
			return agentbox.Checkpoint{}, agentbox.Errorf(agentbox.Exists, "box %s already has a checkpoint %s", rec.Box.Name, c.Name)
		}
	}
	// A checkpoint that could never be restored must not be listed.
	if err := m.templates.CheckSavable(ctx, rec.machine(m.home), rec.Box.Template, "checkpointed"); err != nil {
		return agentbox.Checkpoint{}, err
	}
	c := agentbox.Checkpoint{ID: agentbox.NewBoxID().String(), Name: req.Name, Template: rec.Box.Template, Created: time.Now().UTC()}
	dir := filepath.Join(rec.names(m.home).Checkpoints(), c.ID)
	// The supervisor makes dir itself, by a rename when the save is complete.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return c, agentbox.MarkNoSpace(err)
	}
	end := progress.Begin("checkpoint", rec.Box.Name)
	if err := s.Save(ctx, control.SaveRequest{Dir: dir}); err != nil {
		return c, agentbox.MarkNoSpace(err)
	}
	end("")
	c.Bytes = home.DiskUsage(dir)
	// A new slice: copies of the record share the old one.
	rec.Box.Checkpoint = append(rec.Box.Checkpoint[:len(rec.Box.Checkpoint):len(rec.Box.Checkpoint)], c)
	if err := b.commit(m.home, rec); err != nil {
		return c, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}
