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
	return shown, m.maker.removeLocked(b)
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
	if b.supervisor() != nil {
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
	err := b.change(m.home, func(rec *record) { rec.Phase = phaseRemoving })
	rec := b.record()
	names := rec.names(m.home)
	if err != nil && !errors.Is(err, os.ErrNotExist) && agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if err := b.supervisor().Stop(0); err != nil {
		return err
	}
	b.set(func(b *box) { b.sup = nil })
	m.remotes.Remove(rec.Remote, rec.Box)
	// After the rename the box is gone, even if deleting takes long or is interrupted.
	if err := workspace.RemoveTemp(filepath.Join(names.Dir, "staging")); err != nil {
		return err
	}
	removedDir := names.Dir + ".removed"
	err = os.Rename(names.Dir, removedDir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, m.disk.removeTree(rec.Box.Isolation, removedDir), os.RemoveAll(names.Run)); err != nil {
		return err
	}
	m.boxes.drop(rec.Box.ID)
	return nil
}
