package workspace

import (
	"context"

	"agentbox/agentbox"
)

// Options say how a repository is staged.
type Options struct {
	// Link lets immutable git objects be hard links to the repository's own. Only for a tree that will be read and
	// removed, never written: through a link, a change of the copy is a change of the original.
	Link bool
}

// Stats is what Stage did.
type Stats struct {
	Files    int      // of the work tree, submodules and nested repositories included
	Bytes    int64    // in them
	GitFiles int      // of .git
	GitBytes int64    // in them
	Linked   int      // of GitFiles, how many are hard links
	Notes    []string // what was left out and why, one line each
}

// Stage makes dst, which does not exist or is an empty directory, a copy of the repository that stands alone: the
// work tree (tracked and untracked files, ignored ones not) and a .git directory with which git says the same as in the
// original. On failure dst is as it was. The original is only read.
func Stage(ctx context.Context, repo Repo, dst string, opts Options) (Stats, error) {
	return Stats{}, agentbox.Errorf(agentbox.Internal, "not yet")
}
