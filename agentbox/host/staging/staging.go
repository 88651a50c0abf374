// Package staging fills the workspace of a new box with the repository's files and those of a setup
// result. It only reads the repository.
//
// Packages source and workspace decide which files come into a box. If a driver's workspaces are directories,
// the files are copied once, into place; any other driver gets a temporary tree to make a disk
// from.
package staging

import (
	"context"
	"io"
	"log/slog"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
)

// Stager fills workspaces.
type Stager struct {
	// Overlay lets add read the workspace part of a setup result.
	Overlay func(ctx context.Context, result agentbox.Digest, add func(io.Reader) error) error
	Log     *slog.Logger
}

// Target is the workspace to fill.
type Target struct {
	Box     agentbox.BoxID
	From    string // where the source is from, for people
	Path    string // the reserved workspace
	Size    int64  // of it, in bytes
	Staging string // a directory for a driver that makes its own form of it
	// Baseline is where to record what the workspace holds beyond its commit; "" for a box that
	// nobody takes work from.
	Baseline string
	Commit   string
	Setup    agentbox.Digest // the setup result that belongs in it; zero for none
}

// Fill copies a repository into a box's reserved workspace, while the machine starts. If it fails,
// the workspace is incomplete and the box is erased.
func (s Stager) Fill(ctx context.Context, driver vmm.Driver, to Target, from source.Source, progress agentbox.Progress) error {
	end := progress.Begin("workspace", to.From)
	var stats workspace.Stats
	var err error
	if d, ok := driver.(vmm.DirectoryWorkspaces); ok {
		stats, err = s.inPlace(ctx, d, to, from)
	} else {
		stats, err = s.fromStaging(ctx, driver, to, from)
	}
	if err != nil {
		return err
	}
	for _, note := range stats.Notes {
		progress.Note(note)
	}
	end(agentbox.Plural(stats.Files, "file") + ", " + describeBranch(from.Repo()))
	return nil
}

// fromStaging assembles the files in a temporary tree, from which the driver makes the workspace.
func (s Stager) fromStaging(ctx context.Context, driver vmm.Driver, to Target, from source.Source) (workspace.Stats, error) {
	defer workspace.RemoveTemp(to.Staging) // erase repeats it if the daemon is killed here
	tree, stats, err := from.ApplyTemp(ctx, to.Staging, !to.Setup.IsZero())
	if err == nil {
		err = s.overlay(ctx, to, tree, &stats)
	}
	if err == nil {
		err = s.recordBaseline(ctx, to, tree)
	}
	if err == nil {
		err = driver.NewWorkspace(ctx, to.Path, tree, to.Size)
	}
	return stats, err
}

// inPlace copies the files into the reserved, empty workspace. A directory has no size of its own,
// so it is compared with the size of the box's disk here, and later by watchDisk.
func (s Stager) inPlace(ctx context.Context, driver vmm.DirectoryWorkspaces, to Target, from source.Source) (workspace.Stats, error) {
	path := to.Path
	stats, err := from.Apply(ctx, path, to.Size)
	if err == nil {
		err = s.overlay(ctx, to, path, &stats)
	}
	if err == nil {
		err = s.recordBaseline(ctx, to, path)
	}
	if err == nil && !to.Setup.IsZero() && home.DiskUsage(path) > to.Size {
		err = workspace.TooLarge(to.Size)
	}
	if err == nil {
		// The top directory has the repository's mode by now, which may exclude others.
		err = driver.FinishWorkspace(path)
	}
	return stats, err
}

// recordBaseline records what a staged workspace holds beyond its commit, so that diff and pull can
// tell it from the box's work. A failure is logged and does not stop the box.
func (s Stager) recordBaseline(ctx context.Context, to Target, tree string) error {
	if to.Baseline == "" {
		return nil
	}
	err := snapshot.RecordBaseline(ctx, tree, to.Commit, to.Baseline)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot tell what was uncommitted when a box began", "box", to.Box, "error", err)
		err = os.RemoveAll(to.Baseline)
	}
	return err
}

// overlay adds the files of a setup result.
func (s Stager) overlay(ctx context.Context, to Target, tree string, stats *workspace.Stats) error {
	return s.Overlay(ctx, to.Setup, func(r io.Reader) error {
		files, err := workspace.Overlay(ctx, tree, r)
		stats.Files += files
		return err
	})
}

// describeBranch names the state of a repository that was staged, for a message.
func describeBranch(repo workspace.Repo) string {
	switch {
	case repo.Commit == "":
		return repo.Branch + " without a commit"
	case repo.Detached:
		return repo.Commit[:12]
	}
	return repo.Branch + " at " + repo.Commit[:12]
}
