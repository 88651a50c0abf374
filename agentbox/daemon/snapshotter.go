package daemon

import (
	"context"
	"strconv"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/task"
)

// snapshotter keeps the work of a task's box as a ref of its project's mirror, and of the checkout
// that it was made from. It implements task.Snapshotter.
type snapshotter struct{ jobs }

// Keep keeps what a box holds now. The box is woken to be asked. Each attempt after the first has a
// ref of its own, so that nothing of an earlier one is lost; done again for the same attempt, it
// gives the same. A box in which nothing was touched is told from its file system, which saves a
// task that only tested something most of the work.
func (k snapshotter) Keep(ctx context.Context, box agentbox.Box, t agentbox.Task) (task.Kept, error) {
	c, err := k.boxes.Connect(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return task.Kept{}, err
	}
	in, err := snapshot.Open(ctx, environment.Address{Name: c.Name, Socket: c.Socket, Key: c.Key, KnownHosts: c.KnownHosts}, c.User)
	if err != nil {
		return task.Kept{}, err
	}
	defer in.Close()
	// The mirror is the project's, so that work of all checkouts of it is in one place.
	of, err := project.Of(box.Directory)
	if err != nil { // the checkout is gone
		of = project.Project{Name: t.Project}
	}
	name := t.ID.String()
	if n := len(t.Attempts); n > 1 { // the work of an earlier attempt stays where it is
		name += "-" + strconv.Itoa(n)
	}
	kept, err := snapshot.Keep(ctx, in, snapshot.Request{
		Mirror: k.home.Mirror(of.ID()), Ref: snapshot.TaskRef(name), Base: box.Commit, Begin: k.home.Box(box.ID).Begin(),
		Checkout: box.Directory, Export: true, SkipUntouched: true,
	})
	if err != nil {
		return task.Kept{}, err
	}
	return k.kept(ctx, kept)
}

// maxChanges is how many files a result names. A result is read as a whole by `task ls`, and the
// ref has all of them.
const maxChanges = 200

// kept says what the result of a task says of its work. What a box without any change cannot give,
// as nested repositories, it had from the beginning. The list of changes is cut to maxChanges.
func (k snapshotter) kept(ctx context.Context, kept snapshot.Kept) (task.Kept, error) {
	out := task.Kept{Ref: kept.Ref, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files, Nothing: kept.Nothing(), Missing: kept.Missing, Unexported: kept.Unexported}
	if out.Nothing {
		out.Missing = nil
		return out, nil
	}
	d, err := snapshot.Changes(ctx, kept)
	// The work is kept, and git can say no more of it.
	if agentbox.CodeOf(err) == agentbox.Conflict {
		out.Unlisted, err = agentbox.AsError(err).Message, nil
	}
	out.Changes = d[:min(len(d), maxChanges)]
	return out, err
}
