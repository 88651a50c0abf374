// Package staging fills the workspace of a new box with the repository's files and those of a setup
// result. It only reads the repository. Packages source and workspace decide which files
// come into a box, the box's kind where they are written.
package staging

import (
	"context"
	"io"
	"log/slog"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// Stager fills workspaces.
type Stager struct {
	// Overlay lets add read the workspace part of a setup result.
	Overlay func(ctx context.Context, result agentbox.Digest, add func(io.Reader) error) error
	Log     *slog.Logger
}

// Target is the workspace to fill.
type Target struct {
	Spec place.Spec // of the box
	From string     // where the source is from, for people
	// Baseline is where to record what the workspace holds beyond its commit; "" for a box that
	// nobody takes work from.
	Baseline string
	Commit   string
	Setup    agentbox.Digest // the setup result that belongs in it; zero for none
}

// Fill copies a repository into a box's reserved workspace, while the machine starts. If it fails,
// the workspace is incomplete and the box is erased.
func (s Stager) Fill(ctx context.Context, kind place.Kind, to Target, from source.Source, progress agentbox.Progress) error {
	end := progress.Begin("workspace", to.From)
	var stats workspace.Stats
	err := kind.Fill(ctx, to.Spec, func(ctx context.Context, into place.Tree) (tree string, err error) {
		tree, stats, err = s.write(ctx, to, from, into)
		return tree, err
	})
	if err != nil {
		return err
	}
	for _, note := range stats.Notes {
		progress.Note(note)
	}
	end(agentbox.Plural(stats.Files, "file") + ", " + describeBranch(from.Repo()))
	return nil
}

// write writes the files of the workspace to a directory, and returns which. A directory has no size
// of its own, so it is compared with its limit here, and later by watchDisk.
func (s Stager) write(ctx context.Context, to Target, from source.Source, into place.Tree) (tree string, stats workspace.Stats, err error) {
	if tree = into.Dir; into.Temporary {
		tree, stats, err = from.ApplyTemp(ctx, into.Dir, !to.Setup.IsZero())
	} else {
		stats, err = from.Apply(ctx, tree, into.Limit)
	}
	if err == nil {
		err = s.overlay(ctx, to, tree, &stats)
	}
	if err == nil {
		err = s.recordBaseline(ctx, to, tree)
	}
	if err == nil && into.Limit > 0 && !to.Setup.IsZero() && home.DiskUsage(tree) > into.Limit {
		err = workspace.TooLarge(into.Limit)
	}
	return tree, stats, err
}

// recordBaseline records what a staged workspace holds beyond its commit, so that diff and pull can
// tell it from the box's work. A failure is logged and does not stop the box.
func (s Stager) recordBaseline(ctx context.Context, to Target, tree string) error {
	if to.Baseline == "" {
		return nil
	}
	err := snapshot.RecordBaseline(ctx, tree, to.Commit, to.Baseline)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot tell what was uncommitted when a box began", "box", to.Spec.ID, "error", err)
		err = os.RemoveAll(to.Baseline)
	}
	return err
}

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
