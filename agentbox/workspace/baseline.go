package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// MaxBaseline is the maximum size, in bytes of regular files, of the uncommitted changes that
// RecordBaseline records. RecordBaseline makes a copy of all of them.
const MaxBaseline = 256 << 20

// stat makes git trust the index of a copy, in which inodes and change times differ from those
// of the original. In a sparse checkout, git would refuse to add files outside of its patterns.
var stat = []string{"-c", "core.checkStat=minimal", "-c", "core.trustctime=false", "-c", "core.sparseCheckout=false", "-c", "core.compression=0", "-c", "core.safecrlf=false",
	"-c", "core.bigFileThreshold=64m", "-c", "advice.addEmbeddedRepo=false"}

// Baseline describes the uncommitted changes in a staged tree. Commit's parent is the commit
// checked out there. No ref of the checkout names Commit; it exists only in the pack.
type Baseline struct {
	Commit string // full hex; "" when everything is committed
	Tree   string // of Commit
	Files  int    // not in the index, or different from it
}

// RecordBaseline commits the uncommitted changes of a staged tree on top of head, the commit
// checked out there ("" for none), so that they can be told apart from the box's own work. tree
// must come from Stage, with its own .git, and stays unchanged. RecordBaseline writes to pack what
// the commit has and head lacks; the pack is thin, so only a repository that has head can use it.
// It works below dir, which must not exist and is removed again. No hook or filter of the
// repository runs. Baseline.Commit is "" when everything is committed, or when the changes exceed
// MaxBaseline.
func RecordBaseline(ctx context.Context, tree, head, dir string, pack io.Writer) (baseline Baseline, err error) {
	b, err := newBaselineView(ctx, tree, head, dir)
	if err != nil {
		return baseline, err
	}
	defer os.RemoveAll(dir)
	baseline.Tree, baseline.Files, err = b.top(ctx)
	if baseline.Tree == "" || err != nil {
		return Baseline{}, err
	}
	if baseline.Commit, err = git.Commit(ctx, b.view, baseline.Tree, head, "What was uncommitted when the box began"); err != nil {
		return Baseline{}, agentbox.Errorf(agentbox.Internal, "cannot commit what is uncommitted in %s: %w", tree, err)
	}
	return baseline, git.Pack(ctx, b.view, pack, baseline.Commit, head)
}

// baselineView is one run of RecordBaseline. Through its view, git reads the tree's objects and
// writes new ones elsewhere.
type baselineView struct {
	tree, head string
	view       *git.View
}

// newBaselineView makes the view of the tree: new objects below dir, the tree's own alternates.
func newBaselineView(ctx context.Context, tree, head, dir string) (*baselineView, error) {
	gitDir := filepath.Join(tree, ".git")
	local, err := readConfig(filepath.Join(gitDir, "config"))
	if err != nil {
		return nil, err
	}
	objects := filepath.Join(dir, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return nil, unwritable(objects, err)
	}
	l := viewSource{root: tree, gitDir: gitDir, commonDir: gitDir, objects: objects, local: local, area: []string{tree}}
	v, err := l.newView(filepath.Join(dir, "view"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return &baselineView{tree, head, v.With("GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(gitDir, "objects"), "GIT_LITERAL_PATHSPECS=1")}, nil
}

// run runs git in the tree with the options that make it trust the index.
func (b *baselineView) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	out, _, err := b.view.Run(ctx, git.Call{Dir: b.tree, Args: slices.Concat(stat, args), Stdin: stdin})
	return string(out), err
}

// list lists the files that differ from the index or are not in it. A name that ends in a slash is
// a nested repository. unseen lists the present files that git takes for unchanged without a look
// (git update-index --assume-unchanged, --skip-worktree). Both omit names that no tree can hold.
func (b *baselineView) list(ctx context.Context) (names, unseen []string, err error) {
	out, err := b.run(ctx, nil, "ls-files", "-z", "-v", "--cached", "--modified", "--others", "--exclude-standard")
	for line := range strings.SplitSeq(out, "\x00") {
		tag, name, _ := strings.Cut(line, " ")
		if !ValidName(strings.TrimSuffix(name, "/")) {
			continue
		}
		switch {
		case tag == "C" || tag == "?":
			names = append(names, name)
		// An absent file keeps the skip-worktree bit: a sparse checkout leaves it out.
		case strings.EqualFold(tag, "S") && !exists(filepath.Join(b.tree, name)):
		case tag == "S" || tag != strings.ToUpper(tag):
			unseen = append(unseen, name)
		}
	}
	return names, unseen, err
}

// reveal makes git look at files that it takes for unchanged, and lists again.
func (b *baselineView) reveal(ctx context.Context, unseen []string) (names []string, err error) {
	if _, err := b.run(ctx, strings.NewReader(strings.Join(unseen, "\x00")+"\x00"), "update-index", "-z", "--no-skip-worktree", "--stdin"); err != nil {
		return nil, err
	}
	// It fails if there are changes.
	if _, err := b.run(ctx, nil, "update-index", "-q", "--really-refresh"); err != nil && !isGit(err) {
		return nil, err
	}
	names, _, err = b.list(ctx)
	return names, err
}

func (b *baselineView) size(names []string) (size int64) {
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(b.tree, name)); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}

func isGit(err error) bool {
	_, ok := errors.AsType[*git.Error](err)
	return ok
}

// top returns the tree of all files and the number of those that differ from the index. The tree
// is "" when it equals head's or when MaxBaseline is exceeded. Usually nothing is uncommitted, so
// the index is compared with head's tree while the work tree is scanned: run one after the
// other, the git processes would delay every box by their sum.
func (b *baselineView) top(ctx context.Context) (tree string, files int, err error) {
	var names, unseen []string
	var was, staged string
	var unstaged error // a conflict in the index, which git add resolves
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { names, unseen, err = b.list(gctx); return })
	g.Go(func() error { staged, unstaged = b.run(gctx, nil, "write-tree"); return nil })
	g.Go(func() (err error) {
		if b.head != "" {
			was, err = b.run(gctx, nil, "rev-parse", "--verify", b.head+"^{tree}")
		}
		return
	})
	err = g.Wait()
	// What the user told git to overlook is not the box's work either. This writes the index, which
	// write-tree locks.
	if err == nil && len(unseen) > 0 {
		names, err = b.reveal(ctx, unseen)
	}
	// Too many changes is not an error: the box can still be made.
	if err != nil || b.size(names) > MaxBaseline {
		return "", 0, explain(err, b.tree)
	}
	// Add only the changed files, since the whole tree was scanned already.
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
