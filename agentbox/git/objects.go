package git

import (
	"context"
	"io"
	"strings"
)

// Repository is what git runs on: a View, or a repository of our own.
type Repository interface {
	Run(ctx context.Context, c Call) (stdout []byte, stderr string, err error)
}

// Commits returns which of the given commits a repository has. The result contains only full
// hexadecimal names of commits.
func Commits(ctx context.Context, r Repository, ids ...string) (map[string]bool, error) {
	list := strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, _, err := r.Run(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: list})
	have := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " commit"); ok {
			have[id] = true
		}
	}
	return have, err
}

// commitIdentity sets the author and committer of commits that are made here. They must not reveal
// who runs the box.
var commitIdentity = []string{"GIT_AUTHOR_NAME=agentbox", "GIT_AUTHOR_EMAIL=agentbox@localhost", "GIT_COMMITTER_NAME=agentbox", "GIT_COMMITTER_EMAIL=agentbox@localhost"}

// Commit creates a commit of a tree and returns its name. parent "" makes a root commit. message is
// its first line.
func Commit(ctx context.Context, r Repository, tree, parent, message string) (string, error) {
	args := []string{"commit-tree", "-m", message, tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, _, err := r.Run(ctx, Call{Args: args, Env: commitIdentity})
	return strings.TrimSpace(string(out)), err
}

// Pack writes a thin pack of everything that is reachable from commit but not from the known
// commits. The pack is useful only where the known ones exist. An empty name is ignored.
func Pack(ctx context.Context, r Repository, w io.Writer, commit string, known ...string) error {
	list := commit + "\n"
	for _, id := range known {
		if id != "" {
			list += "^" + id + "\n"
		}
	}
	_, _, err := r.Run(ctx, Call{Args: []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"}, Stdin: strings.NewReader(list), Stdout: w})
	return err
}
