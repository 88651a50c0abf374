package git

import (
	"context"
	"io"
	"path/filepath"
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

// Lacking returns which of the given objects a repository lacks. ids are full hexadecimal names.
func Lacking(ctx context.Context, r Repository, ids []string) (lacking []string, err error) {
	out, _, err := r.Run(ctx, Call{Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			lacking = append(lacking, id)
		}
	}
	return lacking, err
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

// Pack writes a thin pack of everything that is reachable from commit but not from the known commits,
// for another repository of this machine: what is not a delta already stays whole, since looking for
// deltas takes longer than it saves. The pack is useful only where the known ones exist. An empty name
// is ignored.
func Pack(ctx context.Context, r Repository, w io.Writer, commit string, known ...string) error {
	return PackLocal(ctx, r, w, []string{commit}, false, known...)
}

// PackPresent is Pack for a repository that lacks objects of its history, such as a partial clone:
// what is missing is left out. What the receiver has of the known commits may be other parts of
// them, so the pack does not build on those.
func PackPresent(ctx context.Context, r Repository, w io.Writer, commit string, known ...string) error {
	return PackLocal(ctx, r, w, []string{commit}, true, known...)
}

// PackLocal is Pack for several commits or, with present, PackPresent.
func PackLocal(ctx context.Context, r Repository, w io.Writer, commits []string, present bool, known ...string) error {
	return packAll(ctx, r, w, commits, present, known, "--window=0")
}

// PackFew is PackObjects for a few changed files of a List, which become deltas of what is known: without a
// window git knows of no version to build on.
func PackFew(ctx context.Context, r Repository, w io.Writer, list []byte, known ...string) error {
	var edges []string
	for _, id := range known {
		if id != "" {
			edges = append(edges, "-"+id)
		}
	}
	return pack(ctx, r, w, append(edges, strings.TrimSuffix(string(list), "\n")), "--window=1", "--compression=1")
}

// List lists what commits have and known ones lack: "ID PATH", a line each.
func List(ctx context.Context, r Repository, commits, known []string, options ...string) ([]byte, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	in := strings.NewReader(strings.Join(append(excluded(known), commits...), "\n") + "\n")
	out, _, err := r.Run(ctx, Call{Args: append(append([]string{"rev-list", "--objects"}, options...), "--stdin"), Stdin: in})
	return out, err
}

// PackWork is PackLocal for another machine, for commits that have little beside the known one: deltas are
// those that there are and, of other files, to the version before. To look for better ones, and to compress
// more, takes longer than a network does.
func PackWork(ctx context.Context, r Repository, w io.Writer, commits []string, present bool, known string) error {
	return packAll(ctx, r, w, commits, present, []string{known}, "--window=1", "--compression=1")
}

// PackAll is PackLocal for another machine, as small as it gets.
func PackAll(ctx context.Context, r Repository, w io.Writer, commits []string, present bool, known ...string) error {
	return packAll(ctx, r, w, commits, present, known)
}

func packAll(ctx context.Context, r Repository, w io.Writer, commits []string, present bool, known []string, options ...string) error {
	option := "--thin"
	if present {
		option = "--missing=allow-any"
	}
	return pack(ctx, r, w, append(excluded(known), commits...), append(options, "--revs", option)...)
}

// PackInto puts a pack like that of PackLocal, which needs no other, and its index into the directory of a
// repository of this machine. Of no objects there is none. What has to be packed anew is not compressed.
func PackInto(ctx context.Context, r Repository, dir string, commits []string, present bool, known ...string) error {
	args := []string{"pack-objects", "--revs", "--delta-base-offset", "-q", "--window=0", "--compression=0", "--non-empty"}
	if present {
		args = append(args, "--missing=allow-any")
	}
	list := strings.Join(append(excluded(known), commits...), "\n") + "\n"
	_, _, err := r.Run(ctx, Call{Args: append(args, filepath.Join(dir, "pack")), Stdin: strings.NewReader(list), Stdout: io.Discard})
	return err
}

// PackObjects writes a pack of the named objects, which the repository has.
func PackObjects(ctx context.Context, r Repository, w io.Writer, ids []string) error {
	return pack(ctx, r, w, ids)
}

func excluded(known []string) (list []string) {
	for _, id := range known {
		if id != "" {
			list = append(list, "^"+id)
		}
	}
	return list
}

func pack(ctx context.Context, r Repository, w io.Writer, list []string, options ...string) error {
	args := append([]string{"pack-objects", "--stdout", "--delta-base-offset", "-q"}, options...)
	_, _, err := r.Run(ctx, Call{Args: args, Stdin: strings.NewReader(strings.Join(list, "\n") + "\n"), Stdout: w})
	return err
}
