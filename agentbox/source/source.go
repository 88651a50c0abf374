package source

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// Source is what a box is made from.
type Source interface {
	// Repo is a checkout with the source's files. It is not to be changed.
	Repo() workspace.Repo
	// Digest is that of a source that does not change; zero for a checkout as it is.
	Digest() agentbox.Digest
	// Apply copies the source into dst, which is empty or does not exist. limit is in bytes, 0 for
	// none; beyond it the error is NoSpace. After an error dst is what it was.
	Apply(ctx context.Context, dst string, limit int64) (workspace.Stats, error)
	// ApplyTemp provides a tree that is read once: in memory, at near, or elsewhere. It is only
	// written to with write. The caller removes it by workspace.RemoveTemp(near).
	ApplyTemp(ctx context.Context, near string, write bool) (tree string, stats workspace.Stats, err error)
}

// Checkout is the checkout itself, as it is when it is applied.
type Checkout workspace.Repo

func (c Checkout) Repo() workspace.Repo { return workspace.Repo(c) }

func (c Checkout) Digest() agentbox.Digest { return agentbox.Digest{} }

func (c Checkout) Apply(ctx context.Context, dst string, limit int64) (workspace.Stats, error) {
	return workspace.Stage(ctx, workspace.Repo(c), dst, workspace.Options{Limit: limit})
}

func (c Checkout) ApplyTemp(ctx context.Context, near string, _ bool) (string, workspace.Stats, error) {
	return workspace.Temp(near, func(dst string, opts workspace.Options) (workspace.Stats, error) {
		return workspace.Stage(ctx, workspace.Repo(c), dst, opts)
	})
}

// Captured is a source of a Store.
type Captured struct {
	store  *Store
	digest agentbox.Digest
	repo   workspace.Repo
	notes  []string
}

func (c Captured) Repo() workspace.Repo { return c.repo }

func (c Captured) Digest() agentbox.Digest { return c.digest }

// Apply fails with Corrupt for a source that a power loss has damaged.
func (c Captured) Apply(ctx context.Context, dst string, limit int64) (stats workspace.Stats, err error) {
	m, err := c.store.readManifest(c.digest)
	if err != nil {
		return stats, err
	}
	undo, err := workspace.Prepare(dst)
	if err != nil {
		return stats, err
	}
	there, err := c.store.takeAhead(ctx, m, dst)
	if err != nil {
		return stats, undo(err)
	}
	return c.copyTo(ctx, m, dst, limit, there, undo)
}

// copyTo is Apply, but for the paths that are there already.
func (c Captured) copyTo(ctx context.Context, m *manifest, dst string, limit int64, there map[string]bool, undo func(error) error) (stats workspace.Stats, err error) {
	var files []string
	left := limit
	for _, e := range m.Entries {
		if e.Kind == kindDir {
			err = os.MkdirAll(filepath.Join(dst, filepath.FromSlash(e.Path)), 0o700)
		} else if err = c.check(e); !isOfGit(e.Path) {
			stats.Files++
		}
		if there[e.Path] {
			left -= e.Size
		}
		if limit > 0 && left < 0 {
			err = workspace.TooLarge(limit)
		}
		if err != nil {
			return stats, undo(err)
		}
		if e.Kind != kindDir && !there[e.Path] {
			files = append(files, e.Path)
		}
	}
	if limit > 0 {
		limit = max(left, 1) // 0 is none
	}
	if err := workspace.CopyTree(ctx, c.repo.Root, dst, files, limit); err != nil {
		return stats, undo(err)
	}
	for _, e := range m.Entries {
		if e.Kind == kindDir {
			if err := os.Chmod(filepath.Join(dst, filepath.FromSlash(e.Path)), e.Mode|0o700); err != nil {
				return stats, undo(err)
			}
		}
	}
	stats.Notes = c.notes
	return stats, nil
}

// check fails if a file is not the one that was captured, by its size.
func (c Captured) check(e entry) error {
	fi, err := os.Lstat(filepath.Join(c.repo.Root, filepath.FromSlash(e.Path)))
	if err == nil && e.Kind == kindFile && (fi.Size() != e.Size || fi.Mode().Type() != fs.FileMode(0)) {
		err = agentbox.Errorf(agentbox.Corrupt, "%q of source %s is damaged", e.Path, c.digest.Short()).
			WithHint("capture it again: agentbox up or task submit, in the checkout")
	}
	return err
}

// ApplyTemp copies nothing for a tree that is not written to.
func (c Captured) ApplyTemp(ctx context.Context, near string, write bool) (string, workspace.Stats, error) {
	if write {
		return workspace.Temp(near, func(dst string, opts workspace.Options) (workspace.Stats, error) {
			return c.Apply(ctx, dst, opts.Limit)
		})
	}
	m, err := c.store.readManifest(c.digest)
	stats := workspace.Stats{Notes: c.notes}
	if err != nil {
		return "", stats, err
	}
	for _, e := range m.Entries {
		if err = c.check(e); err != nil {
			return "", stats, err
		}
		if e.Kind != kindDir && !isOfGit(e.Path) {
			stats.Files++
		}
	}
	return c.repo.Root, stats, nil
}
