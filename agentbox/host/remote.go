package host

import (
	"context"
	"time"

	"agentbox/agentbox/workspace"
)

// addRemote makes the box a git remote of the checkout it came from, so that git fetch, pull and push bring work back.
func (m *Manager) addRemote(ctx context.Context, repo workspace.Repo, rec record) error {
	return workspace.AddRemote(ctx, repo, workspace.Remote{
		Name: rec.Box.Name, Box: rec.Box.ID.String(), Binary: m.binary, Home: m.home.Dir,
	})
}

// removeRemote takes the box's git remote out of the user's repository. A repository that is gone, or that git refuses,
// must not keep a box alive.
func (m *Manager) removeRemote(rec record) {
	if rec.Remote == "" || directoryGone(rec) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	repo, err := workspace.Describe(ctx, rec.Box.Directory)
	if err == nil {
		err = workspace.RemoveRemote(ctx, repo, rec.Remote, rec.Box.ID.String())
	}
	if err != nil {
		m.log.Warn("cannot remove a git remote", "box", rec.Box.ID, "directory", rec.Box.Directory, "error", err)
	}
}
