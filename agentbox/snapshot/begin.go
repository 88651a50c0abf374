package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox/bounded"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// A beginning is the directory of one box with what was uncommitted when its workspace was made:
//
//	commit      its name; written last. Absent when everything was committed
//	tree        the name of its tree, and how many files are not as in the index
//	pack        what the commit has and its parent, the box's base, has not

const (
	// The commit is written last, so that a beginning which was cut short is none.
	beginFile = "commit"
	treeFile  = "tree"
	packFile  = "pack"
)

// Begin writes down in dir, which must not exist, what a staged tree holds beyond the commit head,
// before a box works on it. head is full hex, "" for none. dir is absent afterwards when everything
// was committed, or was too much to look at (workspace.MaxBegin).
func Begin(ctx context.Context, tree, head, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	pack, err := os.Create(filepath.Join(dir, packFile))
	if err != nil {
		return err
	}
	begun, err := workspace.Begin(ctx, tree, head, filepath.Join(dir, "work"), pack)
	if err = errors.Join(err, pack.Close()); err != nil || begun.Commit == "" {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := durable.Replace(filepath.Join(dir, treeFile), fmt.Appendf(nil, "%s %d", begun.Tree, begun.Files), 0o600); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, beginFile), []byte(begun.Commit), 0o600)
}

// readTree is what the tree of a beginning is called, and how many files of it were not as in the
// index.
func readTree(dir string) (tree string, files int, err error) {
	b, err := os.ReadFile(filepath.Join(dir, treeFile))
	if err == nil {
		_, err = fmt.Sscan(string(b), &tree, &files)
	}
	return tree, files, err
}

// readBegin is the commit of a beginning, "" when there is none.
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

// begin has what was uncommitted when the box began in the mirror. The mirror must have the base,
// or the commit would be one without its history. Then the box's work is compared with nothing but
// the base.
func (k *keepRun) begin(ctx context.Context) error {
	commit, err := readBegin(k.req.Begin)
	if err != nil || commit == "" {
		return err
	}
	base := k.req.Base
	has, err := k.mirror.has(ctx, base, commit)
	// The base is not in the mirror when there was no checkout to seed it from.
	if err != nil || base != "" && !has[base] {
		return err
	}
	k.kept.Begin = commit
	if has[commit] {
		return nil
	}
	pack, err := os.Open(filepath.Join(k.req.Begin, packFile))
	if err != nil {
		return err
	}
	defer pack.Close()
	_, err = k.mirror.git(ctx, pack, "index-pack", "--stdin", "--fix-thin")
	// Nothing waited for the disk when the pack was written, so a power loss may have cut it short.
	if _, failed := errors.AsType[*git.Error](err); failed {
		k.kept.Begin, k.kept.Mixed = "", true
		return nil
	}
	if err != nil {
		return unwritable(err)
	}
	return k.mirror.setRefs(ctx, map[string]string{beginsRef + commit: commit})
}

// apart makes the commit of the box's own work: everything, less what was uncommitted when it
// began. Where both changed the same lines the two cannot be told apart, and the work has both. It
// is a merge of three trees that only git computes, without files: the beginning is the base, HEAD
// without the uncommitted one side, everything the other. f.top becomes the commit of the work.
func (k *keepRun) apart(ctx context.Context, f *facts) error {
	k.kept.Whole = f.top
	if k.kept.Begin == "" || f.head != "" && len(f.head) != len(k.kept.Begin) {
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
		return git.Commit(ctx, k.mirror, tree, k.kept.Begin, "")
	}
	// Two commits on the beginning: HEAD alone, and everything. What differs between them was not
	// committed; what of that is as it was at the beginning was not done by the box.
	ours, err := side(f.head)
	if err != nil {
		return unwritable(err)
	}
	theirs, err := side(f.top)
	if err != nil {
		return unwritable(err)
	}
	// The one base of the two is the beginning.
	// The tree comes first, and then messages about files, of which there may be any number.
	var out bytes.Buffer
	_, _, err = k.mirror.Run(ctx, git.Call{Args: []string{"-c", "merge.renames=false", "merge-tree", "--write-tree", ours, theirs},
		Stdout: &bounded.Head{W: &out, Left: maxFact}})
	if _, failed := errors.AsType[*git.Error](err); failed { // a conflict, or a git that cannot do this
		k.kept.Mixed = true
		return nil
	}
	if err != nil {
		return err
	}
	tree, _, _ := strings.Cut(out.String(), "\n")
	if _, err := k.mirror.git(ctx, nil, "diff-tree", "--quiet", k.kept.Begin, theirs); err == nil {
		k.kept.Same = true
	}
	return k.setWork(ctx, f, tree)
}

// setWork makes the work a commit with this tree on top of HEAD, or HEAD where that has it.
func (k *keepRun) setWork(ctx context.Context, f *facts, tree string) error {
	files, err := k.mirror.countFiles(ctx, f.head, tree)
	if _, failed := errors.AsType[*git.Error](err); failed { // more than git can compare
		k.kept.Mixed = true
		return nil
	}
	if err != nil {
		return err
	}
	// All that was not committed was so at the beginning, and is no work.
	if f.files = files; files == 0 && f.head != "" {
		f.top = f.head
		return nil
	}
	top, err := git.Commit(ctx, k.mirror, tree, f.head, "Uncommitted work of "+filepath.Base(k.req.Ref))
	if err != nil {
		return unwritable(err)
	}
	f.top = top
	return nil
}

// maxCount is up to where files are counted: a few trees may mean more than there can be. More is
// shown as that.
const maxCount = 1_000_000

// countFiles says how many files of a tree are not as in a commit, all of them when that is "".
// commit and tree are in the mirror. A tree that means very many files is counted as maxCount, and
// git is not read on.
func (m mirror) countFiles(ctx context.Context, commit, tree string) (int, error) {
	args := []string{"ls-tree", "-r", "--name-only", "-z", tree}
	if commit != "" {
		args = []string{"diff-tree", "-r", "--no-renames", "--name-only", "-z", commit + "^{tree}", tree}
	}
	names := &counter{of: 0, most: maxCount}
	_, _, err := m.Run(ctx, git.Call{Args: args, Stdout: names})
	if names.n >= names.most {
		return names.n, nil // git was not read to its end
	}
	return names.n, err
}

// counter counts a byte, and takes no more when there are as many as it counts. git stops when it
// cannot write any more, which is how counting ends early.
type counter struct {
	of      byte
	n, most int
}

// errCounted stops git; nobody sees it.
var errCounted = errors.New("there are more than are counted")

// Write counts, and fails when that is enough.
func (c *counter) Write(p []byte) (int, error) {
	c.n = min(c.n+bytes.Count(p, []byte{c.of}), c.most)
	if c.n == c.most {
		return 0, errCounted
	}
	return len(p), nil
}

// Nothing tells whether the box has what it began with, as far as could be looked at. A caller may
// let the box go then, without a ref.
func (k Kept) Nothing() bool {
	return (k.Whole == k.Base || k.Same && k.Head == k.Base) && len(k.Also) == 0 && !k.Lost
}

// began is what everything is compared with: "" for a box that began without any file.
func (k Kept) began() string {
	if k.Begin != "" {
		return k.Begin
	}
	return k.Base
}
