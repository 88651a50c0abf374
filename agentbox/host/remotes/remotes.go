// Package remotes makes boxes git remotes of their checkouts, so that git fetch, pull and push work
// with them. It changes nothing else in a checkout.
package remotes

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/workspace"
)

// Remotes adds and removes the remotes of a home's boxes.
type Remotes struct {
	Home   home.Home
	Binary string // this program's file, which git runs
	Log    *slog.Logger
}

// Add makes a box a remote of its checkout and returns the remote's name. It returns "" for a
// checkout that cannot be written to. Other failures are errors, because the user would miss the
// remote later.
func (r Remotes) Add(ctx context.Context, repo workspace.Repo, box agentbox.Box, progress agentbox.Progress) (string, error) {
	err := workspace.AddRemote(ctx, repo, workspace.Remote{Name: box.Name, Box: box.ID.String(), Binary: r.Binary, Home: r.Home.Dir})
	switch {
	case err == nil:
		return box.Name, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		progress.Note("the box is no git remote of its checkout: " + err.Error())
		return "", nil
	}
	return "", err
}

// Remove removes the remote of a box from the user's repository. Failures are logged, since a
// repository that is gone, or that git refuses, must not keep a box from being removed.
func (r Remotes) Remove(name string, box agentbox.Box) {
	if name == "" || workspace.IsDeleted(box.Directory) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	repo, err := workspace.Describe(ctx, box.Directory)
	if err == nil {
		err = workspace.RemoveRemote(ctx, repo, name, box.ID.String())
	}
	if err != nil {
		r.Log.Warn("cannot remove a git remote", "box", box.ID, "directory", box.Directory, "error", err)
	}
}
