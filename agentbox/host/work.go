package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
)

// Diff tells what changed in a box since it began. It wakes the box, which has to say.
func (m *Manager) Diff(ctx context.Context, req api.DiffRequest, progress agentbox.Progress) (api.WorkDiff, error) {
	rec, kept, err := m.keepWork(ctx, req.BoxRef, progress)
	if err != nil {
		return api.WorkDiff{}, err
	}
	d, err := snapshot.Diff(ctx, kept, snapshot.Look{Stat: req.Stat, Color: req.Color, Width: req.Width})
	if err != nil {
		return api.WorkDiff{}, err
	}
	out := api.WorkDiff{Box: rec.Box.ID, Name: rec.Box.Name, Base: kept.Base, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files,
		Missing: kept.Missing, Text: d.Text, Truncated: d.Truncated, Changes: d.Files}
	return out, nil
}

// Pull brings what was done in a box into a checkout, as a branch.
func (m *Manager) Pull(ctx context.Context, req api.PullRequest, progress agentbox.Progress) (api.PulledWork, error) {
	repo, err := workspace.Describe(ctx, req.Into)
	if err != nil {
		return api.PulledWork{}, err
	}
	rec, kept, err := m.keepWork(ctx, req.BoxRef, progress)
	if err != nil {
		return api.PulledWork{}, err
	}
	if req.Branch == "" {
		req.Branch = "agentbox/" + rec.Box.Name
	}
	out := api.PulledWork{Box: rec.Box.ID, Name: rec.Box.Name, Branch: req.Branch, Commit: kept.Commit, Base: kept.Base, Commits: kept.Commits, Files: kept.Files,
		Missing: kept.Missing, Mixed: kept.Mixed}
	for _, b := range kept.Also {
		out.Also = append(out.Also, b.Name)
	}
	if kept.Commit == kept.Base {
		return out, agentbox.Errorf(agentbox.NotFound, "nothing was done in box %s", rec.Box.Name).WithHint("git log shows the same commit there and here")
	}
	return out, snapshot.Pull(ctx, kept, repo, req.Branch, snapshot.PulledRef(rec.Box.ID.String()))
}

// keepWork has what a box holds now in the mirror of its project.
func (m *Manager) keepWork(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (record, snapshot.Kept, error) {
	b, err := m.find(ctx, ref)
	if err != nil {
		return record{}, snapshot.Kept{}, err
	}
	if err := m.wake(ctx, b, progress); err != nil {
		return record{}, snapshot.Kept{}, err
	}
	rec := b.record()
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return rec, snapshot.Kept{}, err
	}
	defer client.Close()
	p, err := project.Of(rec.Box.Directory)
	if err != nil { // the checkout is gone: its path still names it
		p = project.Project{Name: rec.Box.Directory}
	}
	kept, err := snapshot.Keep(ctx, snapshot.Over(client), snapshot.Request{
		Mirror: m.home.Mirror(p.ID().String()), Ref: snapshot.BoxRef(rec.Box.ID), Base: rec.Box.Commit, Begin: rec.names(m.home).Begin(), Checkout: rec.Box.Directory, Dir: guestWorkspace,
	})
	return rec, kept, err
}
