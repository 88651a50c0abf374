package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/task"
	"agentbox/agentbox/workspace"
)

// Snapshotter keeps the work of a task's box as a ref in the mirror of its project and in the
// checkout that the box was made from. It implements task.Snapshotter.
type Snapshotter struct{ jobs.Jobs }

// Keep snapshots the current work of a box, and wakes the box if necessary. Each attempt after the
// first has a ref of its own, so that no earlier work is lost. Repeated for the same attempt, it
// returns the same result.
//
// The file system of a box shows whether anything was touched. If nothing was, as for a task that
// only ran tests, Keep skips most of the work.
func (s Snapshotter) Keep(ctx context.Context, box agentbox.Box, t agentbox.Task) (task.Kept, error) {
	c, err := s.Boxes.Connect(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return task.Kept{}, err
	}
	in, err := snapshot.Open(ctx, s.Address(c), c.User)
	if err != nil {
		return task.Kept{}, err
	}
	defer in.Close()
	// The mirror belongs to the project, so that the work of all its checkouts is in one place. It is
	// the project at submission, where `pull` looks, even if the checkout's origin has changed since.
	of := project.Project{Name: t.Project}
	name := t.ID.String()
	if n := len(t.Attempts); n > 1 { // the work of an earlier attempt stays where it is
		name += "-" + strconv.Itoa(n)
	}
	from, to, base, baseline := box.Directory, box.Directory, box.Commit, s.Home.Box(box.ID).Baseline()
	if box.Elsewhere {
		to = ""
	}
	if !box.Source.IsZero() { // which has what the box began with, whatever the checkout has now
		from = s.Home.SourceTree(box.Source)
	}
	// The box of a task that goes on from a snapshot has work of before, and began with the task's
	// source all the same.
	goesOn := t.Source != nil && !box.Source.IsZero() && box.Source != t.Source.Digest
	if goesOn {
		var remove func()
		if from, base, baseline, remove, err = s.beginning(ctx, *t.Source); err != nil {
			return task.Kept{}, err
		}
		defer remove()
	}
	kept, err := snapshot.Keep(ctx, in, snapshot.Request{
		Mirror: s.Home.Mirror(of.ID()), Ref: snapshot.TaskRef(name), Base: base, Baseline: baseline,
		Checkout: from, ExportTo: to, SkipUntouched: !goesOn, Rest: true,
	})
	if err != nil {
		return task.Kept{}, err
	}
	out, err := s.describeWork(ctx, kept)
	out.Base = base
	return out, err
}

// beginning is what a source was: its tree, commit, and a directory with what was uncommitted
// (snapshot.RecordBaseline), which remove removes.
func (s Snapshotter) beginning(ctx context.Context, source agentbox.SourceRef) (tree, commit, baseline string, remove func(), err error) {
	repo, err := workspace.Describe(ctx, s.Home.SourceTree(source.Digest))
	if err != nil {
		return "", "", "", nil, err
	}
	dir, err := os.MkdirTemp("", "agentbox-begin-")
	if err != nil {
		return "", "", "", nil, err
	}
	baseline = filepath.Join(dir, "begin")
	if err := snapshot.RecordBaseline(ctx, repo.Root, repo.Commit, baseline); err != nil {
		return "", "", "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return repo.Root, repo.Commit, baseline, func() { os.RemoveAll(dir) }, nil
}

// maxChanges is how many files a result lists. `task ls` reads results as a whole, and the ref has
// all of the files.
const maxChanges = 200

// describeWork describes the work for a task's result, with at most maxChanges changes.
func (s Snapshotter) describeWork(ctx context.Context, kept snapshot.Kept) (task.Kept, error) {
	out := task.Kept{Ref: kept.Ref, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files, Nothing: kept.Nothing(), Missing: kept.Missing, Notes: kept.Notes,
		Others: kept.Others(), Unexported: kept.Unexported}
	if out.Nothing {
		return out, nil
	}
	d, err := snapshot.Changes(ctx, kept)
	// The work is kept, but git cannot list its changes.
	if agentbox.CodeOf(err) == agentbox.Conflict {
		out.Unlisted, err = agentbox.AsError(err).Message, nil
	}
	out.Changes = d[:min(len(d), maxChanges)]
	return out, err
}
