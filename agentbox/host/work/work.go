// Package work shows what was done in a box, brings it into a checkout, and says what would be lost
// with the box. It asks git in the box and changes nothing there.
//
// Package snapshot checks what the box's git says. It takes only objects into the project's mirror,
// a bare repository on this host, and diffs and branches are made from the mirror. So no
// configuration or hook that a box wrote runs here.
package work

import (
	"context"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
)

// Work looks into boxes. It has no state, and its methods may be called concurrently.
type Work struct {
	Home home.Home
	// Enter makes sure that a box runs.
	Enter func(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Box, error)
}

// Box is a running box.
type Box struct {
	ID        agentbox.BoxID
	Name      string
	Directory string // the checkout that it was made from
	Commit    string // that it began with
	Workspace string // in the box; "" is where most have it
	// Open connects to the box.
	Open func(ctx context.Context) (Guest, error)
}

// Guest is a connection into a box (snapshot.Connection).
type Guest interface {
	snapshot.Guest
	Close() error
}

// Diff shows what changed in a box since it began. It wakes the box. Conflict if the box's git
// cannot say.
func (w Work) Diff(ctx context.Context, req api.DiffRequest, progress agentbox.Progress) (api.WorkDiff, error) {
	b, kept, err := w.Keep(ctx, req.BoxRef, progress)
	if err != nil {
		return api.WorkDiff{}, err
	}
	d, err := snapshot.Diff(ctx, kept, snapshot.DiffOptions{Stat: req.Stat, Color: req.Color, Width: req.Width})
	if err != nil {
		return api.WorkDiff{}, err
	}
	out := api.WorkDiff{Box: b.ID, Name: b.Name, Base: kept.Base, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files,
		OtherWork: kept.Others(), Missing: kept.Missing, Notes: kept.Notes, Text: d.Text, Truncated: d.Truncated, Changes: d.Files}
	return out, nil
}

// Offer is Keep for a checkout that is to take the work. NotFound if nothing was done.
func (w Work) Offer(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.PulledWork, snapshot.Kept, error) {
	b, kept, err := w.Keep(ctx, ref, progress)
	if err != nil {
		return api.PulledWork{}, kept, err
	}
	out := api.PulledWork{Box: b.ID, Name: b.Name, Commit: kept.Commit, Base: kept.Base, Commits: kept.Commits, Files: kept.Files,
		OtherWork: kept.Others(), Missing: kept.Missing, Notes: kept.Notes, Mixed: kept.Mixed}
	if kept.Commit == kept.Base && len(kept.OtherRefs) == 0 {
		return out, kept, nothingError(b.Name, kept.Missing)
	}
	return out, kept, nil
}

// Pull brings kept work into a checkout, as a branch.
func Pull(ctx context.Context, out api.PulledWork, kept snapshot.Kept, repo workspace.Repo, branch string) (api.PulledWork, error) {
	name := out.Name // of a task
	if out.Box != (agentbox.BoxID{}) {
		name = out.Box.String()
	}
	var err error
	out.Branch, out.OtherWork, err = snapshot.Pull(ctx, kept, repo, branch, out.Name, snapshot.PulledRef(name))
	return out, err
}

// nothingError returns the error for a box without work that can be brought here. What could not be
// read may be work.
func nothingError(name string, missing []string) error {
	if len(missing) == 0 {
		return agentbox.Errorf(agentbox.NotFound, "nothing was done in box %s", name).WithHint("git log shows the same commit there and here")
	}
	return agentbox.Errorf(agentbox.Conflict, "nothing of box %s can be brought here, and not all of it could be read: %s", name, strings.Join(missing, "; ")).
		WithHint("look at it there, or copy what matters: agentbox cp %s:PATH DIR", name)
}

// Keep copies the present work of a box into the mirror of its project.
func (w Work) Keep(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (Box, snapshot.Kept, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return Box{}, snapshot.Kept{}, err
	}
	guest, err := b.Open(ctx)
	if err != nil {
		return b, snapshot.Kept{}, err
	}
	defer guest.Close()
	kept, err := snapshot.Keep(ctx, guest, w.request(ctx, b))
	return b, kept, err
}

// request says which work to keep of a box, and where: in the mirror of its project.
func (w Work) request(ctx context.Context, b Box) snapshot.Request {
	of := projectOf(ctx, b)
	return snapshot.Request{
		Mirror: w.Home.Mirror(of.ID()), Ref: snapshot.BoxRef(b.ID), Base: b.Commit, Baseline: w.Home.Box(b.ID).Baseline(), Checkout: b.Directory, Dir: b.Workspace,
	}
}
