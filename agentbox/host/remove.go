package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/workspace"
)

// Remove removes a box: machine, runtime, checkpoints and workspace. What it returns is the box as
// it was. Unsaved work is not looked for here: the command line asks about that first (Unsaved).
func (m *Manager) Remove(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	shown, err := m.describe(ctx, b, brief)
	if err != nil {
		return agentbox.Box{}, err
	}
	m.keepHistory(ctx, b, progress)
	return shown, m.maker.remove(b)
}

// remove is erase for callers that do not hold the box's op.
func (m *maker) remove(b *box) error {
	b.op.Lock()
	defer b.op.Unlock()
	return m.erase(b)
}

// removeIdle is remove for a box that had no machine a moment ago: Conflict if it has one now.
func (m *maker) removeIdle(b *box) error {
	b.op.Lock()
	defer b.op.Unlock()
	if b.live() != nil {
		return agentbox.Errorf(agentbox.Conflict, "box %s runs again, and stays", b.record().Box.Name)
	}
	return m.erase(b)
}

// erase takes everything of a box away; the caller holds op. The record says from the start that
// the box is being removed, and goes last but for its directory, so that the next daemon finishes
// what this one could not, and tidy what failed. It may be called again after a failure, and for a
// box of which anything may be missing. Only when all is gone does the table forget it.
func (m *maker) erase(b *box) error {
	err := b.change(m.home, func(rec *record) { rec.Phase = phaseRemoving })
	rec := b.record()
	names := rec.names(m.home)
	if err != nil && !errors.Is(err, os.ErrNotExist) && agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if err := b.live().Stop(0); err != nil {
		return err
	}
	b.set(func(b *box) { b.sup = nil })
	m.remotes.Remove(rec.Remote, rec.Box)
	// Renamed first, the box is gone at once even when deleting takes long or is cut short.
	if err := workspace.RemoveTemp(filepath.Join(names.Dir, "staging")); err != nil {
		return err
	}
	doomed := names.Dir + ".removed"
	err = os.Rename(names.Dir, doomed)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, m.disk.removeTree(rec.Box.Isolation, doomed), os.RemoveAll(names.Run)); err != nil {
		return err
	}
	m.boxes.drop(rec.Box.ID)
	return nil
}
