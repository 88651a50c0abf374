package host

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// addRemote makes the box a git remote of the checkout it came from, so that git fetch, pull and
// push bring work back. A checkout that cannot be written to gets none.
func (m *Manager) addRemote(ctx context.Context, repo workspace.Repo, rec *record, progress agentbox.Progress) error {
	err := workspace.AddRemote(ctx, repo, workspace.Remote{
		Name: rec.Box.Name, Box: rec.Box.ID.String(), Binary: m.binary, Home: m.home.Dir,
	})
	switch {
	case err == nil:
		rec.Remote = rec.Box.Name
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		progress.Say("the box is no git remote of its checkout: " + err.Error())
		return nil
	}
	return err
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
