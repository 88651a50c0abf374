package work

import (
	"bytes"
	"context"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
)

// Unsaved tells what would be lost with a box: it asks git in the box, which it wakes for that, and
// git in the checkout that the box was made from. Conflict where the box's git cannot say: the
// caller must not take that for nothing. Titles and names in the answer are the box's words, at
// most ten of each.
func (w Work) Unsaved(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.UnsavedWork, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return api.UnsavedWork{}, err
	}
	out := api.UnsavedWork{Box: b.ID, Name: b.Name}
	state, err := stateOf(ctx, b)
	if err != nil {
		return out, err
	}
	repo, err := workspace.Describe(ctx, b.Directory)
	if err != nil { // the checkout is gone, and all that is in the box with it
		return told(out, workspace.Work{Commits: state.Commits, Files: state.Paths()}), nil
	}
	work, err := workspace.Unsaved(ctx, repo, state)
	return told(out, work), err
}

// maxNamed is how many commits and files are named; the others are only counted.
const maxNamed = 10

// told is the answer for what would be lost. What git says need not be UTF-8, and JSON has to be.
func told(out api.UnsavedWork, work workspace.Work) api.UnsavedWork {
	out.Commits, out.Files = len(work.Commits), len(work.Files)
	for _, c := range work.Commits[:min(len(work.Commits), maxNamed)] {
		out.Titles = append(out.Titles, strings.ToValidUTF8(c.Title, "\ufffd"))
	}
	for _, f := range work.Files[:min(len(work.Files), maxNamed)] {
		out.Paths = append(out.Paths, strings.ToValidUTF8(f, "\ufffd"))
	}
	return out
}

// Bounds of what is read of the git in a box, in bytes: a program that took its place could go on
// for ever, and all of it is held in memory. A line of the state takes some 150, so that is room
// for 200,000 changed files.
const (
	mostState     = 32 << 20
	mostComplaint = 4 << 10
)

// stateOf asks git in a box what its workspace holds. Where it cannot say, or says more than is
// read, that is Conflict: nobody may take it for nothing.
func stateOf(ctx context.Context, b Box) (workspace.State, error) {
	guest, err := b.Open(ctx)
	if err != nil {
		return workspace.State{}, err
	}
	defer guest.Close()
	var stdout, stderr bytes.Buffer
	status, err := guest.Exec(ctx, environment.Command{
		Argv: []string{"sh", "-c", workspace.StateScript}, Dir: protocol.WorkspaceDir,
		Stdout: &bounded.AtMost{W: &stdout, Left: mostState, Err: agentbox.Errorf(agentbox.Conflict, "git in box %s says more than %d MiB of its workspace", b.Name, mostState>>20)},
		Stderr: &bounded.Head{W: &stderr, Left: mostComplaint},
	})
	if err != nil {
		return workspace.State{}, err
	}
	state, err := workspace.ReadState(stdout.Bytes())
	if err != nil || status.Code != 0 {
		return state, agentbox.Errorf(agentbox.Conflict, "git in box %s cannot tell what its workspace holds: %s", b.Name, agentbox.Printable(strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; ")))
	}
	return state, nil
}
