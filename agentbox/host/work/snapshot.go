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
	b, guest, err := w.enter(ctx, ref, progress)
	if err != nil {
		return b, snapshot.Kept{}, project.Project{}, err
	}
	defer guest.Close()
	kept, err := snapshot.Keep(ctx, guest, w.whole(ctx, b))
	return b, kept, projectOf(ctx, b), err
}

func (w Work) enter(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Box, Guest, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return b, nil, err
	}
	guest, err := b.Open(ctx)
	return b, guest, err
}

func projectOf(ctx context.Context, b Box) project.Project {
	of, err := project.Identify(ctx, b.Directory)
	if err != nil { // the checkout is gone: its path still names it
		of = project.Project{Name: b.Directory}
	}
	return of
}

func (w Work) whole(ctx context.Context, b Box) snapshot.Request {
	req := w.request(ctx, b)
	req.Ref, req.Rest, req.All = snapshot.SnapshotOf(b.ID), true, true
	if cfg, err := config.Load(ctx, b.Directory); err == nil { // a broken one names no artifacts
		req.Artifacts = cfg.Artifacts
	}
	return req
}

// Replace has a box go on from a snapshot to, whose work is in the mirror, if it is as it was in the
// snapshot from (snapshot.Replace). It wakes the box.
func (w Work) Replace(ctx context.Context, ref api.BoxRef, from, to snapshot.Document) (b Box, done bool, err error) {
	b, guest, err := w.enter(ctx, ref, nil)
	if err != nil {
		return b, false, err
	}
	defer guest.Close()
	done, err = snapshot.Replace(ctx, guest, w.whole(ctx, b), from, to, func(ctx context.Context, kept snapshot.Kept) (snapshot.Document, error) {
		d, _, err := snapshot.NewDocument(ctx, kept, projectOf(ctx, b).Name)
		return d, err
	})
	return b, done, err
}

// Offer brings a snapshot into a box under a ref (snapshot.Offer). It wakes the box.
func Offer(ctx context.Context, w Work, box agentbox.BoxID, ref string, d snapshot.Document) error {
	b, guest, err := w.enter(ctx, api.BoxRef{Box: box.String()}, nil)
	if err != nil {
		return err
	}
	defer guest.Close()
	return snapshot.Offer(ctx, guest, b.Workspace, w.Home.Mirror(projectOf(ctx, b).ID()), ref, d)
}
