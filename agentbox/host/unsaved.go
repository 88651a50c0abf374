package host

import (
	"bytes"
	"context"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// Unsaved tells what would be lost with a box: it asks git in the box, which it wakes for that, and git in the checkout
// that the box was made from.
func (m *Manager) Unsaved(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.UnsavedWork, error) {
	b, err := m.find(ctx, ref)
	if err != nil {
		return api.UnsavedWork{}, err
	}
	if err := m.wake(ctx, b, progress); err != nil {
		return api.UnsavedWork{}, err
	}
	rec := b.record()
	out := api.UnsavedWork{Box: rec.Box.ID, Name: rec.Box.Name}
	state, err := m.workspaceState(ctx, rec)
	if err != nil {
		return out, err
	}
	repo, err := workspace.Describe(ctx, rec.Box.Directory)
	if err != nil { // the checkout is gone, and all that is in the box with it
		out.Commits, out.Files = len(state.Commits), len(state.Changed)
		return out, nil
	}
	out.Commits, out.Files, err = workspace.Unsaved(ctx, repo, state)
	return out, err
}

func (m *Manager) workspaceState(ctx context.Context, rec record) (workspace.State, error) {
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return workspace.State{}, err
	}
	defer client.Close()
	var stdout, stderr bytes.Buffer
	status, err := environment.Exec(ctx, client, environment.Command{
		Argv: []string{"sh", "-c", workspace.StateScript}, Dir: guestWorkspace, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		return workspace.State{}, err
	}
	state, err := workspace.ReadState(stdout.Bytes())
	if err != nil || status.Code != 0 {
		return state, agentbox.Errorf(agentbox.Conflict, "git in box %s cannot tell what its workspace holds: %s", rec.Box.Name, strings.TrimSpace(stderr.String()))
	}
	return state, nil
}
