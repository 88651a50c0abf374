package git

import (
	"context"
	"io"
	"strings"
)

// Repository is what git is run over: a View, or a repository of our own.
type Repository interface {
	Run(ctx context.Context, c Call) (stdout []byte, stderr string, err error)
}

// Commits tells which of the commits a repository has. Anything but the full hex of a commit is not
// in the result.
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

// ours are the author and the committer of commits that are made here: those of a box are nobody's
// business.
var ours = []string{"GIT_AUTHOR_NAME=agentbox", "GIT_AUTHOR_EMAIL=agentbox@localhost", "GIT_COMMITTER_NAME=agentbox", "GIT_COMMITTER_EMAIL=agentbox@localhost"}

// Commit makes a commit of a tree on top of another, or of none for parent "", and returns its
// name. message is its first line.
func Commit(ctx context.Context, r Repository, tree, parent, message string) (string, error) {
	args := []string{"commit-tree", "-m", message, tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, _, err := r.Run(ctx, Call{Args: args, Env: ours})
	return strings.TrimSpace(string(out)), err
}

// Pack writes a pack of what a commit leads to, without what those that are known lead to. It is
// thin: of use only where the known ones are. "" is no commit.
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
