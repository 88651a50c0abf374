package daemon

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
)

// taskWork tells what was done in boxes and tasks, and brings it into checkouts. A task whose box
// has gone has its work in the mirror of its project; until then, its box is asked. One name is
// both a box's and a task's only if somebody gave a box a task's id for a name: then the task is
// meant.
type taskWork struct {
	tasks tasks
	boxes work.Work
}

// diff shows what changed since a box or task began. Of a task it is made from the mirror, without
// a box; Missing is then not told again, as the task's result has it.
func (t taskWork) diff(ctx context.Context, req api.DiffRequest, progress agentbox.Progress) (api.WorkDiff, error) {
	kept, err := t.find(&req.BoxRef)
	if err != nil {
		return api.WorkDiff{}, err
	}
	if kept == nil {
		return t.boxes.Diff(ctx, req, progress)
	}
	d, err := snapshot.Diff(ctx, *kept, snapshot.Look{Stat: req.Stat, Color: req.Color, Width: req.Width})
	return api.WorkDiff{
		Name: req.Box, Base: kept.Base, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files, Text: d.Text, Truncated: d.Truncated, Changes: d.Files,
	}, err
}

// pull brings the work of a box or task into a checkout, as a branch. The branch is agentbox/NAME
// where none is named.
func (t taskWork) pull(ctx context.Context, req api.PullRequest, progress agentbox.Progress) (api.PulledWork, error) {
	kept, err := t.find(&req.BoxRef)
	if err != nil {
		return api.PulledWork{}, err
	}
	if kept == nil {
		return t.boxes.Pull(ctx, req, progress)
	}
	// The checkout is looked at before anything is brought into it.
	repo, err := workspace.Describe(ctx, req.Into)
	if err != nil {
		return api.PulledWork{}, err
	}
	if req.Branch == "" {
		req.Branch = "agentbox/" + req.Box
	}
	out := api.PulledWork{Name: req.Box, Branch: req.Branch, Commit: kept.Commit, Base: kept.Base, Commits: kept.Commits, Files: kept.Files}
	return out, snapshot.Pull(ctx, *kept, repo, req.Branch, snapshot.PulledRef(req.Box))
}

// find gives the work of the task that is named; nil when a box is to be asked, which ref then
// names. Conflict for a task that has not begun, NotFound for one that left nothing.
func (t taskWork) find(ref *api.BoxRef) (*snapshot.Kept, error) {
	id, err := agentbox.ParseTaskID(ref.Box)
	if err != nil {
		return nil, nil
	}
	one, err := t.tasks.queue.Store.Read(id)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil, nil // a box may be called so
	}
	if err != nil {
		return nil, err
	}
	last := one.Last()
	switch {
	// Where the work is depends on how far the task has come: nowhere yet, in its box, in a box
	// that was kept because the work could not be, or in the mirror.
	case last == nil:
		return nil, agentbox.Errorf(agentbox.Conflict, "task %s has not begun", id).WithHint("agentbox task ls says what it waits for")
	case last.Result == nil:
		// Still in its box: the box is asked like any other.
		ref.Box = last.BoxName
		return nil, nil
	case last.Result.Box != "":
		// It could not be kept, so its box was.
		ref.Box = last.Result.Box
		return nil, nil
	case last.Result.Ref == "":
		return nil, agentbox.Errorf(agentbox.NotFound, "nothing was done in task %s", id)
	}
	r := last.Result
	of := project.Project{Name: one.Project}
	kept := snapshot.Again(t.tasks.evidence.home.Mirror(of.ID()), snapshot.Kept{Ref: r.Ref, Commit: r.Commit, Base: r.Base, Commits: r.Commits, Files: r.Files})
	return &kept, nil
}
