package host

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
)

// fillWorkspace copies a repository, and what setup made in the workspace of another box, into a box's reserved workspace.
func (m *Manager) fillWorkspace(ctx context.Context, driver vmm.Driver, rec record, repo workspace.Repo, progress agentbox.Progress) error {
	end := progress.Begin("workspace", repo.Root)
	var stats workspace.Stats
	var err error
	if d, ok := driver.(vmm.DirectoryWorkspaces); ok {
		stats, err = m.fillInPlace(ctx, d, rec, repo)
	} else {
		stats, err = m.fillFromStaging(ctx, driver, rec, repo)
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

// fillFromStaging puts the files together elsewhere for the driver to make a workspace of.
func (m *Manager) fillFromStaging(ctx context.Context, driver vmm.Driver, rec record, repo workspace.Repo) (workspace.Stats, error) {
	staging := filepath.Join(rec.names(m.home).Dir, "staging")
	defer workspace.RemoveTemp(staging) // erase does it again for a daemon that was killed here
	tree, stats, err := workspace.StageTemp(ctx, repo, staging)
	if err == nil {
		err = m.overlayWorkspace(ctx, rec, tree, &stats)
	}
	if err == nil {
		err = m.begins(ctx, rec, tree)
	}
	if err == nil {
		err = driver.NewWorkspace(ctx, rec.workspacePath(m.home), tree, rec.Box.Disk)
	}
	return stats, err
}

// fillInPlace copies the files once, to where the box has them. The reserved workspace is empty.
func (m *Manager) fillInPlace(ctx context.Context, driver vmm.DirectoryWorkspaces, rec record, repo workspace.Repo) (workspace.Stats, error) {
	path := rec.workspacePath(m.home)
	stats, err := workspace.Stage(ctx, repo, path, workspace.Options{Limit: rec.Box.Disk})
	if err == nil {
		err = m.overlayWorkspace(ctx, rec, path, &stats)
	}
	if err == nil {
		err = m.begins(ctx, rec, path)
	}
	if err == nil && !rec.Box.Cache.IsZero() && diskUsage(path) > rec.Box.Disk {
		err = workspace.TooLarge(rec.Box.Disk)
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
func (m *Manager) begins(ctx context.Context, rec record, tree string) error {
	if rec.Box.Directory == "" {
		return nil
	}
	err := snapshot.Begin(ctx, tree, rec.Box.Commit, rec.names(m.home).Begin())
	if err != nil && ctx.Err() == nil {
		m.log.Warn("cannot tell what was uncommitted when a box began", "box", rec.Box.ID, "error", err)
		err = os.RemoveAll(rec.names(m.home).Begin())
	}
	return err
}

// overlayWorkspace adds what setup made in the workspace of another box.
func (m *Manager) overlayWorkspace(ctx context.Context, rec record, tree string, stats *workspace.Stats) error {
	return m.setup.Overlay(ctx, rec.Box.Cache, func(r io.Reader) error {
		files, err := workspace.Overlay(ctx, tree, r)
		stats.Files += files
		return err
	})
}

func branchOf(repo workspace.Repo) string {
	switch {
	case repo.Commit == "":
		return repo.Branch + " without a commit"
	case repo.Detached:
		return repo.Commit[:12]
	}
	return repo.Branch + " at " + repo.Commit[:12]
}
