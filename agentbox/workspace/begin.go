package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// MaxBegin bounds what is uncommitted in a checkout for Begin to look at it: a copy is made of all
// that. It is in bytes of regular files.
const MaxBegin = 256 << 20

// stat has git believe the index about a copy: inodes and change times are another's there.
var stat = []string{"-c", "core.checkStat=minimal", "-c", "core.trustctime=false", "-c", "core.compression=0", "-c", "core.safecrlf=false",
	"-c", "core.bigFileThreshold=64m", "-c", "advice.addEmbeddedRepo=false"}

// Begun is what a staged tree holds beyond the commit that is checked out in it. The commit's
// parent is the one that is checked out; it is in no ref of the checkout, and exists in the pack
// and where that is unpacked.
type Begun struct {
	Commit string // full hex; "" when everything is committed
	Tree   string // of Commit
	Files  int    // that are not as in the index, or not in it
}

// Begin makes a commit of what a staged tree holds, on top of head, the commit that is checked out
// there ("" for none), so that what was uncommitted can be told from what a box does. It writes to
// pack what the commit has and head has not, and works below dir, which must not exist. The tree
// stays as it is. No hook and no filter of the repository is run. The commit is "" when everything
// is committed, or when what is not is larger than MaxBegin.
//
// tree is one that Stage made, with its own .git. The pack is thin: it is of use only in a
// repository that has head. The commit's objects are made below dir alone, which is removed again.
func Begin(ctx context.Context, tree, head, dir string, pack io.Writer) (begun Begun, err error) {
	b, err := newBeginning(ctx, tree, head, dir)
	if err != nil {
		return begun, err
	}
	defer os.RemoveAll(dir)
	begun.Tree, begun.Files, err = b.top(ctx)
	if begun.Tree == "" || err != nil {
		return Begun{}, err
	}
	if begun.Commit, err = git.Commit(ctx, b.view, begun.Tree, head, "What was uncommitted when the box began"); err != nil {
		return Begun{}, agentbox.Errorf(agentbox.Internal, "cannot commit what is uncommitted in %s: %w", tree, err)
	}
	return begun, git.Pack(ctx, b.view, pack, begun.Commit, head)
}

// beginning is one Begin under way: the tree with its commit, and git's view of it, by which new
// objects go elsewhere while the tree's own are found.
type beginning struct {
	tree, head string
	view       *git.View
}

// newBeginning makes git's view of the tree. New objects go below dir; those that the tree has are
// read as alternates.
func newBeginning(ctx context.Context, tree, head, dir string) (*beginning, error) {
	gitDir := filepath.Join(tree, ".git")
	local, err := readConfig(filepath.Join(gitDir, "config"))
	if err != nil {
		return nil, err
	}
	objects := filepath.Join(dir, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return nil, unwritable(objects, err)
	}
	l := looks{root: tree, gitDir: gitDir, commonDir: gitDir, objects: objects, local: local, area: []string{tree}}
	v, err := l.newView(filepath.Join(dir, "view"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return &beginning{tree, head, v.With("GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(gitDir, "objects"), "GIT_LITERAL_PATHSPECS=1")}, nil
}

// run runs git in the tree, with what it needs to believe the index.
func (b *beginning) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	out, _, err := b.view.Run(ctx, git.Call{Dir: b.tree, Args: slices.Concat(stat, args), Stdin: stdin})
	return string(out), err
}

// changed names the files that are not as in the index, and how large they are together. Names of
// files that no tree can hold are left out; size counts regular files only, in bytes. Directories
// end in a slash: they are repositories of their own.
func (b *beginning) changed(ctx context.Context) (names []string, size int64, err error) {
	out, err := b.run(ctx, nil, "ls-files", "-z", "--modified", "--others", "--exclude-standard")
	if err != nil {
		return nil, 0, explain(err, b.tree)
	}
	for name := range strings.SplitSeq(out, "\x00") {
		if name == "" || !validName(strings.TrimSuffix(name, "/")) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(b.tree, name)); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		names = append(names, name)
	}
	return names, size, nil
}

// top is the tree of everything that is there and the number of files that are not as in the index,
// "" when head has just that or MaxBegin is exceeded. Mostly there is nothing uncommitted, so the
// index is compared with head's tree beside the walk that tells whether it still stands for the
// files: one git process after another would cost each box their sum.
func (b *beginning) top(ctx context.Context) (tree string, files int, err error) {
	var names []string
	var size int64
	var was, staged string
	var unstaged error // a conflict in the index, which add resolves
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { names, size, err = b.changed(gctx); return })
	g.Go(func() error { staged, unstaged = b.run(gctx, nil, "write-tree"); return nil })
	g.Go(func() (err error) {
		if b.head != "" {
			was, err = b.run(gctx, nil, "rev-parse", "--verify", b.head+"^{tree}")
		}
		return
	})
	// Without error: that there is too much is no reason to make no box.
	if err := g.Wait(); err != nil || size > MaxBegin {
		return "", 0, explain(err, b.tree)
	}
	// Only those files are added: a walk through all of them was done already.
	if len(names) > 0 {
		list := strings.NewReader(strings.Join(names, "\x00") + "\x00")
		if _, err := b.run(ctx, list, "add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			return "", 0, explain(err, b.tree)
		}
		staged, unstaged = b.run(ctx, nil, "write-tree")
	}
	if unstaged != nil {
		return "", 0, explain(unstaged, b.tree)
	}
	if staged == was {
		return "", 0, nil
	}
	return strings.TrimSpace(staged), len(names), nil
}
