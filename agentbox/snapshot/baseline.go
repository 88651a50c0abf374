package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// A beginning is the directory of one box that records what was uncommitted when its workspace
// was made:
//
//	commit      its name; written last. Absent when everything was committed
//	tree        the name of its tree, and how many files differ from the index
//	pack        objects of the commit that its parent, the box's base, lacks

const (
	// The commit is written last, so an interrupted beginning counts as none.
	beginFile = "commit"
	treeFile  = "tree"
	packFile  = "pack"
)

// RecordBaseline records in dir the uncommitted changes of a staged tree, relative to the commit
// head (full hex, "" for none), before a box works on it. dir must not exist. Afterwards it is
// absent if everything was committed or the changes were too large (workspace.MaxBaseline).
func RecordBaseline(ctx context.Context, tree, head, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	pack, err := os.Create(filepath.Join(dir, packFile))
	if err != nil {
		return err
	}
	begun, err := workspace.RecordBaseline(ctx, tree, head, filepath.Join(dir, "work"), pack)
	if err = errors.Join(err, pack.Close()); err != nil || begun.Commit == "" {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := durable.Replace(filepath.Join(dir, treeFile), fmt.Appendf(nil, "%s %d", begun.Tree, begun.Files), 0o600); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, beginFile), []byte(begun.Commit), 0o600)
}

// readTree returns the tree of a beginning and how many of its files differ from the index.
func readTree(dir string) (tree string, files int, err error) {
	b, err := os.ReadFile(filepath.Join(dir, treeFile))
	if err == nil {
		_, err = fmt.Sscan(string(b), &tree, &files)
	}
	return tree, files, err
}

// readBegin returns the commit of a beginning, or "" if there is none.
func readBegin(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	b, err := os.ReadFile(filepath.Join(dir, beginFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// begin adds the commit of the beginning to the mirror. It needs the base there, because the
// commit would otherwise have no history; without it, the box's work is compared with the base
// alone.
func (k *keepRun) begin(ctx context.Context) error {
	commit, err := readBegin(k.req.Baseline)
	if err != nil || commit == "" {
		return err
	}
	base := k.req.Base
	has, err := k.mirror.has(ctx, base, commit)
	// The base is missing if there was no checkout to seed it from.
	if err != nil || base != "" && !has[base] {
		return err
	}
	k.kept.Baseline = commit
	if has[commit] {
		return nil
	}
	pack, err := os.Open(filepath.Join(k.req.Baseline, packFile))
	if err != nil {
		return err
	}
	defer pack.Close()
	_, err = k.mirror.git(ctx, pack, "index-pack", "--stdin", "--fix-thin")
	// The pack was written without fsync, so a power loss may have truncated it.
	if _, failed := errors.AsType[*git.Error](err); failed {
		k.kept.Baseline, k.kept.Mixed = "", true
		return nil
	}
	if err != nil {
		return mirrorError(err)
	}
	return k.mirror.setRefs(ctx, map[string]string{beginsRef + commit: commit})
}

// separateWork makes the commit of the box's own work: everything except what was uncommitted when
// it began. If both changed the same lines they cannot be separated, and the work contains both.
// Git computes this as a three-way merge without files: the base is the beginning, one side is
// HEAD, and the other side is everything. f.top becomes the commit of the work.
func (k *keepRun) separateWork(ctx context.Context, f *tree) error {
	k.kept.Whole = f.top
	if k.kept.Baseline == "" || k.req.All || f.head != "" && len(f.head) != len(k.kept.Baseline) {
		return nil
	}
	side := func(commit string) (string, error) {
		tree := commit + "^{tree}"
		if commit == "" {
			var err error
			if tree, err = k.mirror.emptyTree(ctx); err != nil {
				return "", err
			}
		}
		return git.Commit(ctx, k.mirror, tree, k.kept.Baseline, "")
	}
	// Both sides are commits on top of the beginning: HEAD alone, and everything. The difference
	// between them was not committed; whatever in it is unchanged since the beginning is not the
	// box's work.
	ours, err := side(f.head)
	if err != nil {
		return mirrorError(err)
	}
	theirs, err := side(f.top)
	if err != nil {
		return mirrorError(err)
	}
	// Their merge base is the beginning. merge-tree prints the tree first, then any number of
	// messages about files.
	var out bytes.Buffer
	_, _, err = k.mirror.Run(ctx, git.Call{Args: []string{"-c", "merge.renames=false", "merge-tree", "--write-tree", ours, theirs},
		Stdout: &bounded.Head{W: &out, Remaining: maxFact}})
	if _, failed := errors.AsType[*git.Error](err); failed { // a conflict, or a git that cannot do this
		k.kept.Mixed = true
		return nil
	}
	if err != nil {
		return err
	}
	tree, _, _ := strings.Cut(out.String(), "\n")
	if _, err := k.mirror.git(ctx, nil, "diff-tree", "--quiet", k.kept.Baseline, theirs); err == nil {
		k.kept.Same = true
	}
	return k.setWork(ctx, f, tree)
}

// Separate makes the commit of the work in a snapshot whose task began with a source of this machine:
// without what was uncommitted there. source is its tree, and head that tree's commit.
func Separate(ctx context.Context, kept Kept, source, head string) (Kept, error) {
	dir, err := os.MkdirTemp("", "agentbox-begin-")
	if err != nil {
		return kept, err
	}
	defer os.RemoveAll(dir)
	baseline := filepath.Join(dir, "begin")
	if err := RecordBaseline(ctx, source, head, baseline); err != nil {
		return kept, err
	}
	k := keepRun{req: Request{Base: head, Baseline: baseline, Ref: kept.Ref}, mirror: mirror{kept.Mirror}, kept: kept}
	if err := k.begin(ctx); err != nil {
		return kept, err
	}
	work := tree{head: kept.Head, top: kept.Whole, files: kept.Files}
	if err := k.separateWork(ctx, &work); err != nil {
		return kept, err
	}
	k.kept.Commit, k.kept.Files, k.kept.Base = work.top, work.files, head
	return k.kept, nil
}

// Beginning keeps what a source of this machine was, in the mirror at dir: the work of a task that did
// nothing. source is its tree.
func Beginning(ctx context.Context, dir, source, ref string) (Kept, error) {
	repo, err := workspace.Describe(ctx, source)
	if err != nil {
		return Kept{}, err
	}
	temp, err := os.MkdirTemp("", "agentbox-begin-")
	if err != nil {
		return Kept{}, err
	}
	defer os.RemoveAll(temp)
	baseline := filepath.Join(temp, "begin")
	if err := RecordBaseline(ctx, repo.Root, repo.Commit, baseline); err != nil {
		return Kept{}, err
	}
	k := keepRun{req: Request{Mirror: dir, Ref: ref, Base: repo.Commit, Baseline: baseline, Checkout: source}, kept: Kept{Ref: ref, Head: repo.Commit, Base: repo.Commit, exact: true}}
	if err := k.prepare(ctx); err != nil {
		return Kept{}, err
	}
	whole := cmp.Or(k.kept.Baseline, repo.Commit)
	if has, err := k.mirror.has(ctx, whole); err != nil || !has[whole] {
		return Kept{}, errors.Join(err, agentbox.Errorf(agentbox.NotFound, "what it began with is not a commit, or is not here any more"))
	}
	if whole != repo.Commit {
		if k.kept.Files, err = k.mirror.countFiles(ctx, repo.Commit, whole+"^{tree}"); err != nil {
			return Kept{}, mirrorError(err)
		}
	}
	k.kept.Commit, k.kept.Whole, k.kept.Mirror = whole, whole, k.mirror.dir
	return k.kept, k.mirror.setRefs(ctx, map[string]string{ref: whole})
}

// setWork commits the tree on top of HEAD, or uses HEAD if it already has that tree.
func (k *keepRun) setWork(ctx context.Context, f *tree, tree string) error {
	files, err := k.mirror.countFiles(ctx, f.head, tree)
	if _, failed := errors.AsType[*git.Error](err); failed { // too many files for git to compare
		k.kept.Mixed = true
		return nil
	}
	if err != nil {
		return err
	}
	// Everything uncommitted was so at the beginning, so it is not the box's work.
	if f.files = files; files == 0 && f.head != "" {
		f.top = f.head
		return nil
	}
	top, err := git.Commit(ctx, k.mirror, tree, f.head, "Uncommitted work of "+filepath.Base(k.req.Ref))
	if err != nil {
		return mirrorError(err)
	}
	f.top = top
	return nil
}

// maxCount is where counting of files stops, since a few trees can expand to an unlimited
// number. Larger counts are shown as this one.
const maxCount = 1_000_000

// countFiles returns how many files of a tree differ from a commit, or all of them if commit is
// "". Both must be in the mirror. It stops reading git at maxCount.
func (m mirror) countFiles(ctx context.Context, commit, tree string) (int, error) {
	args := []string{"ls-tree", "-r", "--name-only", "-z", tree}
	if commit != "" {
		args = []string{"diff-tree", "-r", "--no-renames", "--name-only", "-z", commit + "^{tree}", tree}
	}
	names := &counter{of: 0, most: maxCount}
	_, _, err := m.Run(ctx, git.Call{Args: args, Stdout: names})
	if names.n >= names.most {
		return names.n, nil // git was stopped early
	}
	return names.n, err
}

// counter counts occurrences of a byte up to a maximum. Beyond that its writes fail, which stops
// git.
type counter struct {
	of      byte
	n, most int
}

// errCounted makes git stop; it is never returned to a caller.
var errCounted = errors.New("there are more than are counted")

// Write counts p, and fails once the maximum is reached.
func (c *counter) Write(p []byte) (int, error) {
	c.n = min(c.n+bytes.Count(p, []byte{c.of}), c.most)
	if c.n == c.most {
		return 0, errCounted
	}
	return len(p), nil
}

// Nothing reports whether the box holds nothing but what it began with, as far as could be
// examined. The caller may then remove the box without a ref.
func (k Kept) Nothing() bool {
	return (k.Whole == k.Base || k.Same && k.Head == k.Base) && len(k.OtherRefs)+len(k.Missing) == 0
}

// Others describes OtherRefs.
func (k Kept) Others() (others []agentbox.OtherWork) {
	for _, b := range k.OtherRefs {
		others = append(others, b.OtherWork)
	}
	return others
}

// began returns the commit to compare with; "" means that the box began without files.
func (k Kept) began() string {
	if k.Baseline != "" {
		return k.Baseline
	}
	return k.Base
}

// AtCommit is a commit that a checkout has, as work of which nothing is uncommitted, in the mirror at dir.
func AtCommit(ctx context.Context, dir, checkout, commit string) (Kept, error) {
	k := keepRun{req: Request{Mirror: dir, Base: commit, Checkout: checkout}}
	if err := k.prepare(ctx); err != nil {
		return Kept{}, err
	}
	has, err := k.mirror.has(ctx, commit)
	if err != nil || !has[commit] {
		return Kept{}, errors.Join(err, agentbox.Errorf(agentbox.NotFound, "%s has no commit %.40s", checkout, commit))
	}
	return Kept{Mirror: k.mirror.dir, Head: commit, Base: commit, Commit: commit, Whole: commit, exact: true}, nil
}
