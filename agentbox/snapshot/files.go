package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// files keeps the work of a box without a usable git. The files arrive as an archive, and git on
// the host commits them in a temporary work tree and git directory. workspace.Overlay validates
// the archive and omits git directories. The box's ignore rules apply.
func (k *keepRun) files(ctx context.Context) (f facts, err error) {
	dir, err := os.MkdirTemp(k.mirror.dir, "incoming-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return facts{}, mirrorError(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return facts{}, mirrorError(err)
	}
	if err := k.unpack(ctx, tree); err != nil {
		return facts{}, err
	}
	// The work tree holds what a box sent, so git reads it through a view: of the box's
	// configuration and attributes, only files in the tree apply.
	view, err := git.NewView(filepath.Join(dir, "view"), git.ViewConfig{WorkTree: tree, Format: k.mirror.format(ctx)})
	if err != nil {
		return facts{}, err
	}
	return k.commitFiles(ctx, view, tree)
}

// unpack extracts the box's files below tree. An archive larger than k.req.Limit bytes fails
// with code NoSpace.
func (k *keepRun) unpack(ctx context.Context, tree string) error {
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return k.guest.Files(ctx, k.req.Dir, w)
	}, func(ctx context.Context, r io.Reader) error {
		in := &io.LimitedReader{R: r, N: k.req.Limit}
		_, err := workspace.Overlay(ctx, tree, in)
		if in.N <= 0 {
			return agentbox.Errorf(agentbox.NoSpace, "the files in the box are larger than %d MiB", k.req.Limit>>20).
				WithHint("copy what matters: agentbox cp BOX:PATH DIR")
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in) // read the padding at the end of the archive
		}
		return err
	})
}

// commitFiles commits a tree of files, on top of the base if the mirror has it. The objects are
// made in the view and enter the mirror as a pack, checked like any other.
func (k *keepRun) commitFiles(ctx context.Context, view *git.View, dir string) (facts, error) {
	view = view.With("GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(k.mirror.dir, "objects"))
	_, complaints, err := view.Run(ctx, git.Call{Dir: dir, Args: []string{"add", "-A", "--ignore-errors"}})
	failed, ok := errors.AsType[*git.Error](err)
	switch {
	case ok && failed.Status == 1: // git refused some file names and added the rest
		k.addLost(complaints)
	case err != nil:
		return facts{}, mirrorError(err)
	}
	out, _, err := view.Run(ctx, git.Call{Dir: dir, Args: []string{"write-tree"}})
	if err != nil {
		return facts{}, mirrorError(err)
	}
	f, id := tree{path: "."}, strings.TrimSpace(string(out))
	if has, err := k.mirror.has(ctx, k.req.Base); err == nil && has[k.req.Base] {
		f.head = k.req.Base
	}
	if f.top, err = git.Commit(ctx, view, id, f.head, "Files of "+filepath.Base(k.req.Ref)); err != nil {
		return facts{}, mirrorError(err)
	}
	err = background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return git.Pack(ctx, view, w, f.top, f.head)
	}, func(ctx context.Context, r io.Reader) error {
		return k.mirror.receivePack(ctx, r, k.req.Limit, false, []string{f.top})
	})
	if err == nil {
		f.files, err = k.mirror.countFiles(ctx, f.head, id)
	}
	return facts{trees: []tree{f}}, err
}

// addLost records git's complaints about files that it did not add, up to maxMissing.
func (k *keepRun) addLost(complaints string) {
	for line := range strings.Lines(complaints) {
		if why, ok := strings.CutPrefix(line, "error: "); ok {
			k.kept.Missing = note(k.kept.Missing, agentbox.Printable(strings.TrimSpace(why)))
		}
	}
}

// format returns the object format of the mirror, sha1 or sha256, or "" if git cannot tell.
func (m mirror) format(ctx context.Context) string {
	out, err := m.git(ctx, nil, "rev-parse", "--show-object-format")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}
