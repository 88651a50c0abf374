// Package remotes makes boxes git remotes of the checkouts that they were made from, so that git
// fetch, pull and push bring work back. It changes nothing else of a checkout.
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

// Remotes are those of the boxes of a home.
type Remotes struct {
	Home   home.Home
	Binary string // this program's file, which git runs
	Log    *slog.Logger
}

// Add makes a box a remote of its checkout, and gives its name there. A checkout that cannot be
// written to gets none, "". Any other failure is an error, as the user would miss the remote later.
func (r Remotes) Add(ctx context.Context, repo workspace.Repo, box agentbox.Box, progress agentbox.Progress) (string, error) {
	err := workspace.AddRemote(ctx, repo, workspace.Remote{Name: box.Name, Box: box.ID.String(), Binary: r.Binary, Home: r.Home.Dir})
	switch {
	case err == nil:
		return box.Name, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		progress.Say("the box is no git remote of its checkout: " + err.Error())
		return "", nil
	}
	return "", err
}

// Remove takes the remote of a box out of the user's repository. A repository that is gone, or that
// git refuses, must not keep a box alive. Failures are logged: the remote then leads to a box that
// is gone, and git says so.
func (r Remotes) Remove(name string, box agentbox.Box) {
	if name == "" || workspace.Gone(box.Directory) {
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
