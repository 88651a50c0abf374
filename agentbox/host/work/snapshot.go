package work

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
)

// Snapshot copies everything of a box's workspace into the mirror of its project: what a
// snapshot.Document is made of. It wakes the box.
func (w Work) Snapshot(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Box, snapshot.Kept, project.Project, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return b, snapshot.Kept{}, project.Project{}, err
	}
	of, err := project.Identify(b.Directory)
	if err != nil { // the checkout is gone: its path still names it
		of = project.Project{Name: b.Directory}
	}
	guest, err := b.Open(ctx)
	if err != nil {
		return b, snapshot.Kept{}, of, err
	}
	defer guest.Close()
	req := w.request(b)
	req.Ref, req.Rest, req.All = snapshot.SnapshotOf(b.ID), true, true
	if cfg, err := config.Load(ctx, b.Directory); err == nil { // a broken one names no artifacts
		req.Artifacts = cfg.Artifacts
	}
	kept, err := snapshot.Keep(ctx, guest, req)
	return b, kept, of, err
}
