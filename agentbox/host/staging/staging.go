// Package staging makes the workspace of a new box: the repository's files, with what setup made in
// the workspace of another box of the same key. The repository itself is read and not changed.
//
// What of a repository comes in is decided by the package workspace; here is how it gets to where
// the box has it. A driver whose workspaces are directories gets the files once, in their place;
// any other gets a temporary tree to make a disk of.
package staging

import (
	"context"
	"io"
	"log/slog"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
)

// Stager makes workspaces.
type Stager struct {
	// Overlay has add read what a setup result has for a workspace; not for the zero result.
	Overlay func(ctx context.Context, result agentbox.Digest, add func(io.Reader) error) error
	Log     *slog.Logger
}

// Target is where a workspace is to be.
type Target struct {
	Box     agentbox.BoxID
	Path    string // the reserved workspace
	Size    int64  // of it, in bytes
	Staging string // a directory for a driver that makes its own form of it
	// Begin: where it is written down what the workspace holds beyond its commit; "" for a box that
	// nobody takes work from.
	Begin  string
	Commit string
	Setup  agentbox.Digest // the setup result that belongs in it; zero for none
}

// Fill copies a repository into a box's reserved workspace. It is done beside the start of the
// machine. On failure what is in the workspace is unfinished, and the box is erased.
func (s Stager) Fill(ctx context.Context, driver vmm.Driver, to Target, repo workspace.Repo, progress agentbox.Progress) error {
	end := progress.Begin("workspace", repo.Root)
	var stats workspace.Stats
	var err error
	if d, ok := driver.(vmm.DirectoryWorkspaces); ok {
		stats, err = s.inPlace(ctx, d, to, repo)
	} else {
		stats, err = s.fromStaging(ctx, driver, to, repo)
	}
	if err != nil {
		return err
	}
	for _, note := range stats.Notes {
		progress.Say(note)
	}
	end(agentbox.Plural(stats.Files, "file") + ", " + branchOf(repo))
	return nil
}

// fromStaging puts the files together elsewhere for the driver to make a workspace of.
func (s Stager) fromStaging(ctx context.Context, driver vmm.Driver, to Target, repo workspace.Repo) (workspace.Stats, error) {
	defer workspace.RemoveTemp(to.Staging) // erase does it again for a daemon that was killed here
	tree, stats, err := workspace.StageTemp(ctx, repo, to.Staging)
	if err == nil {
		err = s.overlay(ctx, to, tree, &stats)
	}
	if err == nil {
		err = s.begins(ctx, to, tree)
	}
	if err == nil {
		err = driver.NewWorkspace(ctx, to.Path, tree, to.Size)
	}
	return stats, err
}

// inPlace copies the files once, to where the box has them. The reserved workspace is empty. A
// directory has no size, so it is measured here against the box's disk; watchDisk does so later.
func (s Stager) inPlace(ctx context.Context, driver vmm.DirectoryWorkspaces, to Target, repo workspace.Repo) (workspace.Stats, error) {
	path := to.Path
	stats, err := workspace.Stage(ctx, repo, path, workspace.Options{Limit: to.Size})
	if err == nil {
		err = s.overlay(ctx, to, path, &stats)
	}
	if err == nil {
		err = s.begins(ctx, to, path)
	}
	if err == nil && !to.Setup.IsZero() && home.DiskUsage(path) > to.Size {
		err = workspace.TooLarge(to.Size)
	}
	if err == nil {
		// The top has the repository's mode by now, which may let nobody else in.
		err = driver.FinishWorkspace(path)
	}
	return stats, err
}

// begins writes down what a staged workspace holds beyond its commit, for diff and pull to tell it
// from what the box does. A box that nobody takes work from needs none, and one whose git cannot
// say it goes without.
func (s Stager) begins(ctx context.Context, to Target, tree string) error {
	if to.Begin == "" {
		return nil
	}
	err := snapshot.Begin(ctx, tree, to.Commit, to.Begin)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot tell what was uncommitted when a box began", "box", to.Box, "error", err)
		err = os.RemoveAll(to.Begin)
	}
	return err
}

// overlay adds what setup made in the workspace of another box.
func (s Stager) overlay(ctx context.Context, to Target, tree string, stats *workspace.Stats) error {
	return s.Overlay(ctx, to.Setup, func(r io.Reader) error {
		files, err := workspace.Overlay(ctx, tree, r)
		stats.Files += files
		return err
	})
}

// branchOf says which state of a repository was staged, for a message.
func branchOf(repo workspace.Repo) string {
	switch {
	case repo.Commit == "":
		return repo.Branch + " without a commit"
	case repo.Detached:
		return repo.Commit[:12]
	}
	return repo.Branch + " at " + repo.Commit[:12]
}
