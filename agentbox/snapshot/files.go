package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// files keeps what a box without a usable git has: its files come as an archive, and git here makes
// the commit of them, in a work tree and a git directory that are ours. What the archive may hold
// is judged by workspace.Overlay, which also leaves out git directories. Ignore rules of the box
// apply, as in its commits.
func (k *keepRun) files(ctx context.Context) (f facts, err error) {
	dir, err := os.MkdirTemp(k.mirror.dir, "incoming-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return facts{}, unwritable(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return facts{}, unwritable(err)
	}
	if err := k.unpack(ctx, tree); err != nil {
		return facts{}, err
	}
	// The work tree holds what a box sent, so git looks at it through a view, with no configuration
	// and no attributes of the box's but those that are files of the tree.
	view, err := git.NewView(filepath.Join(dir, "view"), git.Ingredients{WorkTree: tree, Format: k.mirror.format(ctx)})
	if err != nil {
		return facts{}, err
	}
	return k.commitFiles(ctx, view, tree)
}

// unpack writes the files of the box below tree. The limit is k.req.Limit, in bytes of the archive:
// NoSpace beyond.
func (k *keepRun) unpack(ctx context.Context, tree string) error {
	return pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return k.guest.Files(ctx, k.req.Dir, w)
	}, func(ctx context.Context, r io.Reader) error {
		in := &io.LimitedReader{R: r, N: k.req.Limit}
		_, err := workspace.Overlay(ctx, tree, in)
		if in.N <= 0 {
			return agentbox.Errorf(agentbox.NoSpace, "the files in the box are larger than %d MiB", k.req.Limit>>20).
				WithHint("copy what matters: agentbox cp BOX:PATH DIR")
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in) // the end of an archive is padded
		}
		return err
	})
}

// commitFiles makes a commit of a tree of files, on top of the base if the mirror has it. The
// objects are made in the view and reach the mirror as a pack, checked like every other.
func (k *keepRun) commitFiles(ctx context.Context, view *git.View, tree string) (facts, error) {
	env := append([]string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(k.mirror.dir, "objects")}, ours...)
	run := func(stdin io.Reader, args ...string) (string, error) {
		out, _, err := view.Run(ctx, git.Call{Dir: tree, Args: args, Env: env, Stdin: stdin})
		return strings.TrimSpace(string(out)), err
	}
	if _, err := run(nil, "add", "-A", "--ignore-errors"); err != nil {
		return facts{}, unwritable(err)
	}
	id, err := run(nil, "write-tree")
	if err != nil {
		return facts{}, unwritable(err)
	}
	commit := []string{"commit-tree", "-m", "Files of " + filepath.Base(k.req.Ref), id}
	f := facts{}
	if has, err := k.mirror.has(ctx, k.req.Base); err == nil && k.req.Base != "" && has[k.req.Base] {
		f.head = k.req.Base
		commit = append(commit, "-p", k.req.Base)
	}
	if f.top, err = run(nil, commit...); err != nil {
		return facts{}, unwritable(err)
	}
	changed := []string{"ls-tree", "-r", "--name-only", id}
	if f.head != "" {
		changed = []string{"diff-tree", "-r", "--no-renames", "--name-only", f.head, id}
	}
	names, err := run(nil, changed...)
	if err != nil {
		return facts{}, unwritable(err)
	}
	if names != "" {
		f.files = len(strings.Split(names, "\n"))
	}
	list := f.top + "\n"
	if f.head != "" {
		list += "^" + f.head + "\n"
	}
	return f, pipe(ctx, func(ctx context.Context, w io.Writer) error {
		_, _, err := view.Run(ctx, git.Call{Args: []string{"pack-objects", "--revs", "--stdout", "-q"}, Env: env, Stdin: strings.NewReader(list), Stdout: w})
		return err
	}, func(ctx context.Context, r io.Reader) error {
		return k.mirror.take(ctx, r, k.req.Limit, []string{f.top})
	})
}

// format is that of the mirror's objects, sha1 or sha256; "" where git does not say.
func (m mirror) format(ctx context.Context) string {
	out, err := m.git(ctx, nil, "rev-parse", "--show-object-format")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}
