package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func (m *Manager) findRunning(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (*box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err == nil {
		err = m.ensureRunning(ctx, b, progress)
	}
	return b, err
}

// ensureRunning makes sure that a box runs and renews its lease. A paused box is resumed; a stopped
// one gets a new life on its workspace. ensureRunning takes op, so that one of several callers
// starts the machine and the others find it.
func (m *Manager) ensureRunning(ctx context.Context, b *box, progress agentbox.Progress) error {
	b.op.Lock()
	defer b.op.Unlock()
	if b.record().Phase != phaseReady {
		return agentbox.Errorf(agentbox.NotFound, "box %s was removed", b.record().Box.ID)
	}
	if rec := b.record(); rec.MovedTo != nil {
		return movedAway(rec)
	}
	switch b.state(m.disk) {
	case agentbox.Running:
		return b.renew(ctx)
	case agentbox.Paused:
		err := m.resume(ctx, b, progress)
		if err == nil && b.record().PausedFor != "" {
			err = b.change(m.home, func(rec *record) { rec.PausedFor = "" })
		}
		return err
	}
	reportEnd(b.record(), progress)
	return m.newLife(ctx, b, b.record(), progress)
}

// newLife starts a fresh machine, as rec describes it, on the box's workspace, and drops the
// runtime of the last one. The caller holds op, and the last machine has ended. The record that
// names the new life is durable before its machine starts, so that after a crash a running machine
// is either the record's or orphaned.
func (m *Manager) newLife(ctx context.Context, b *box, rec record, progress agentbox.Progress) error {
	var err error
	if rec.Kernel, err = m.kernelFor(ctx, rec.Box.Isolation, rec.KernelKey, progress); err != nil {
		return err // the kernel's guest agent must be of this build
	}
	rec.Life++
	rec.Box.Lease, rec.Box.Ended, rec.StartErr, rec.StartDue = newLease(), nil, "", true
	rec.NoTemplate = rec.NoTemplate && m.disk.prepares(rec.Box.Isolation) // once recorded for all kinds
	if !rec.NoTemplate {
		if rec.Box.Template, err = m.disk.key(ctx, rec, progress); err != nil {
			return err
		}
	}
	if err := m.disk.prepare(b, rec); err != nil {
		return err
	}
	if err := m.machines.start(ctx, b, launch{complete: workspaceReady}, progress); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	reportPorts(ctx, b, progress)
	// Only now: until the new machine answers, the files of the last one help to find what is wrong.
	if err := m.disk.sweep(rec, false); err != nil {
		return err
	}
	return m.onStart(ctx, b, progress)
}

// workspaceReady is launch.complete for boxes that have their workspace.
func workspaceReady() error { return nil }

// reportEnd tells the user why a box's last machine ended.
func reportEnd(rec record, progress agentbox.Progress) {
	if end := rec.Box.Ended; end != nil {
		progress.NoteEnd(rec.Box.Name, *end)
	}
}
