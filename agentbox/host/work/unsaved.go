package work

import (
	"bytes"
	"context"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
)

// Unsaved says what would be lost with a box. It asks git in the box, which it wakes, and in the
// checkout that the box was made from. Conflict if the box's git cannot say, which does not mean
// that nothing would be lost. Titles and names in the answer come from the box, at most maxNamed of
// each.
func (w Work) Unsaved(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.UnsavedWork, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return api.UnsavedWork{}, err
	}
	out := api.UnsavedWork{Box: b.ID, Name: b.Name}
	state, err := queryState(ctx, b)
	if err != nil {
		return out, err
	}
	repo, err := workspace.Describe(ctx, b.Directory)
	if err != nil { // the checkout is gone, so everything in the box would be lost
		return unsavedResponse(out, workspace.Work{Commits: state.Commits, Files: state.Paths()}), nil
	}
	work, err := workspace.Unsaved(ctx, repo, state, b.Commit, snapshot.PulledRef(b.ID.String()))
	return unsavedResponse(out, work), err
}

// maxNamed is how many commits and files are named; more are only counted.
const maxNamed = 10

// unsavedResponse is the answer for what would be lost. Git's text need not be UTF-8; JSON must be.
func unsavedResponse(out api.UnsavedWork, work workspace.Work) api.UnsavedWork {
	out.Commits, out.Files = len(work.Commits), len(work.Files)
	for _, c := range work.Commits[:min(len(work.Commits), maxNamed)] {
		out.Titles = append(out.Titles, strings.ToValidUTF8(c.Title, "\ufffd"))
	}
	for _, f := range work.Files[:min(len(work.Files), maxNamed)] {
		out.Paths = append(out.Paths, strings.ToValidUTF8(f, "\ufffd"))
	}
	return out
}

// Bounds, in bytes, of what is read from git in a box and held in memory; a program in its place
// could write without end. At some 150 bytes a line, that is room for 200,000 changed files.
const (
	maxStatus = 32 << 20
	maxStderr = 4 << 10
)

// queryState asks git in a box what its workspace holds. Conflict if it cannot say or says too
// much, which does not mean that nothing is there.
func queryState(ctx context.Context, b Box) (workspace.State, error) {
	guest, err := b.Open(ctx)
	if err != nil {
		return workspace.State{}, err
	}
	defer guest.Close()
	var stdout, stderr bytes.Buffer
	status, err := guest.Exec(ctx, environment.Command{
		Argv: []string{"sh", "-c", workspace.StateScript}, Dir: protocol.WorkspaceDir,
		Stdout: &bounded.LimitedWriter{W: &stdout, Remaining: maxStatus, Err: agentbox.Errorf(agentbox.Conflict, "git in box %s prints more than %d MiB about its workspace", b.Name, maxStatus>>20)},
		Stderr: &bounded.Head{W: &stderr, Remaining: maxStderr},
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
