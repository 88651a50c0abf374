package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/git"
	"agentbox/agentbox/git/objects"
	"agentbox/agentbox/workspace"
)

// maxTree bounds the bytes of a checkout's files: a small pack may hold any number.
const maxTree = 64 << 30

// Checkout writes kept work into dir, which must not exist, as a checkout of a branch, or of none
// if that is "": its commits are the branch, and what was uncommitted is uncommitted there. Where
// the box told more than that (Kept.Rest), the index, an interrupted operation, modes, times and
// ignored artifacts are as they were; otherwise files have git's modes and the time of the commit
// that the box began with, so that the same work is the same checkout. Other branches and nested
// repositories are there, too. No git writes the files, so no filter runs and no link is followed:
// a file that git keeps in another form, as Git LFS does, has that form. Files that another such
// checkout, like, has are hard links to those, and are not to be changed in place; "" is none.
func Checkout(ctx context.Context, kept Kept, branch, dir, like string) error {
	return mirror{kept.Mirror}.checkout(ctx, kept, branch, dir, like)
}

func (m mirror) checkout(ctx context.Context, kept Kept, branch, dir, like string) error {
	head, whole, last, err := m.states(ctx, kept)
	if err != nil {
		return err
	}
	args := []string{"init", "-q", "--template=", "--initial-branch=" + cmp.Or(branch, "agentbox")}
	if len(whole) == 64 {
		args = append(args, "--object-format=sha256")
	}
	if _, _, err := git.Run(ctx, git.Call{Dir: filepath.Dir(dir), Args: append(args, dir)}); err != nil {
		return mirrorError(err)
	}
	to := mirror{filepath.Join(dir, ".git")} // as bare as one for all that follows
	var tips []string                        // without what is uncommitted: that is files
	if head != "" {
		tips = append(tips, head)
	}
	for _, b := range kept.OtherRefs {
		if b.Path == "" {
			tips = append(tips, b.Commit)
		}
	}
	trees := []string{whole}
	var left rest
	if last != "" {
		trees = append(trees, last+":ignored")
		if left, err = m.readRest(ctx, last); err != nil {
			return err
		}
		if len(left.index) > 0 {
			tips = append(tips, last+":objects")
		}
	}
	if err := m.copyHistory(ctx, to, kept.Base, tips); err != nil {
		return err
	}
	if head != "" {
		ref := "HEAD" // --no-deref makes it the commit itself
		if branch != "" {
			ref = "refs/heads/" + branch
		}
		if err := to.setRefs(ctx, map[string]string{ref: head}); err != nil {
			return err
		}
		if _, err := to.git(ctx, nil, "read-tree", head); err != nil {
			return mirrorError(err)
		}
	}
	w := treeWriter{at: m.timeOf(ctx, cmp.Or(kept.Base, head, whole)), like: openLike(like, left)}
	defer w.like.close()
	err = m.writeFiles(ctx, trees, dir, &w)
	if err == nil {
		err = m.restoreRefs(ctx, kept.OtherRefs, to, dir)
	}
	if err == nil && last != "" {
		err = m.apply(ctx, left, last, to, dir)
	}
	if err == nil && head != "" {
		err = w.fillIndex(to.dir, dir)
	}
	return err
}

// timeOf returns the date of a commit.
func (m mirror) timeOf(ctx context.Context, commit string) time.Time {
	out, err := m.git(ctx, nil, "log", "-1", "--format=%ct", commit)
	seconds, parseErr := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil || parseErr != nil {
		return time.Unix(0, 0)
	}
	return time.Unix(seconds, 0)
}

// states returns the commit that was checked out, "" for none, the one that has everything that was
// in the workspace, and the one with the rest, "" for none.
func (m mirror) states(ctx context.Context, kept Kept) (head, whole, last string, err error) {
	whole, last = cmp.Or(kept.Whole, kept.Commit), kept.Rest
	if kept.exact {
		return kept.Head, whole, last, nil
	}
	if ref := strings.TrimPrefix(kept.Ref, namespace); ref != kept.Ref {
		at := func(ref string) string {
			out, _ := m.git(ctx, nil, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
			return strings.TrimSpace(out)
		}
		whole, last = cmp.Or(at(wholesRef+ref), whole), cmp.Or(last, at(restsRef+ref))
	}
	if kept.Files == 0 {
		return kept.Commit, whole, last, nil
	}
	out, err := m.git(ctx, nil, "rev-list", "--parents", "-n1", kept.Commit)
	if f := strings.Fields(out); err == nil && len(f) > 1 {
		head = f[1]
	}
	return head, whole, last, mirrorError(err)
}

// copyHistory copies commits with their history, and the ends of a shallow one. That of base is shared.
func (m mirror) copyHistory(ctx context.Context, to mirror, base string, tips []string) error {
	present := exists(filepath.Join(m.dir, promised))
	shallow, err := os.ReadFile(filepath.Join(m.dir, "shallow"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to.dir, "shallow"), shallow, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return mirrorError(err)
	}
	packs := filepath.Join(to.dir, "objects", "pack")
	if present || !m.linkHistory(ctx, base, packs) {
		base = ""
	}
	tips = slices.DeleteFunc(tips, func(tip string) bool { return tip == base })
	if err = nil; len(tips) > 0 {
		err = git.PackInto(ctx, m, packs, tips, present, base)
	}
	if err != nil || len(shallow) == 0 {
		return mirrorError(err)
	}
	// git refuses to work with a line whose commit is not there.
	var kept strings.Builder
	have, err := to.has(ctx, strings.Fields(string(shallow))...)
	for id := range have {
		kept.WriteString(id + "\n")
	}
	if kept.Len() == 0 {
		return errors.Join(err, os.Remove(filepath.Join(to.dir, "shallow")))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(to.dir, "shallow"), []byte(kept.String()), 0o600))
}

// writeFiles writes the files of trees into dir. Links come last, so that nothing is written through
// one.
func (m mirror) writeFiles(ctx context.Context, trees []string, dir string, w *treeWriter) error {
	var out []byte
	for _, tree := range trees {
		list, _, err := m.Run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-z", "--full-tree", tree}})
		if err != nil {
			return mirrorError(err)
		}
		out = append(out, list...)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w.root, w.left, w.ids, w.links = root, maxTree, map[string]string{}, map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		facts, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(facts) // MODE TYPE ID
		if !ok || len(f) != 3 {
			continue // the empty tree
		}
		if !workspace.ValidName(name) {
			return agentbox.Errorf(agentbox.Corrupt, "%q cannot be the name of a file", name)
		}
		if f[1] == "commit" { // a submodule, which the box checks out
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
			continue
		}
		w.ids[name] = f[2]
		if !w.like.link(root, dir, name, f[0], f[2], w.at) {
			w.files = append(w.files, fileOfTree{name, f[0], f[2]})
		}
	}
	if err := errors.Join(w.writeSmall(ctx, filepath.Join(m.dir, "objects")), m.writeLarge(ctx, w)); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	for name, target := range w.links {
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.Symlink(target, name)); err != nil {
			return err
		}
	}
	return nil
}

// fileOfTree is a file of a tree: its path, and its mode and blob as git ls-tree has them.
type fileOfTree struct{ name, mode, id string }

// treeWriter writes files of trees. mu guards links and left.
type treeWriter struct {
	root  *os.Root
	files []fileOfTree // that are not written yet
	at    time.Time
	ids   map[string]string // the blobs of all files
	like  *likeTree

	mu    sync.Mutex
	links map[string]string
	left  int64 // bytes that may still be written
}

// maxSmall bounds files that are read whole, in bytes.
const maxSmall = 16 << 20

// writeSmall writes the files that it can read from a directory of objects, several at once, and leaves
// the others in files.
func (t *treeWriter) writeSmall(ctx context.Context, dir string) error {
	store, err := objects.Open(dir)
	if err != nil {
		return nil // git may know how to read it
	}
	defer store.Close()
	done := make([]bool, len(t.files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, f := range t.files {
		id, err := objects.ParseID(f.id)
		if err != nil {
			continue
		}
		g.Go(func() error {
			o, err := store.Read(id, maxSmall)
			if done[i] = err == nil && o.Kind == objects.Blob; !done[i] {
				return nil
			}
			return errors.Join(ctx.Err(), t.one(f, int64(len(o.Content)), bytes.NewReader(o.Content)))
		})
	}
	err = g.Wait()
	var left []fileOfTree
	for i, f := range t.files {
		if !done[i] {
			left = append(left, f)
		}
	}
	t.files = left
	return err
}

// writeLarge has git read what files has.
func (m mirror) writeLarge(ctx context.Context, t *treeWriter) error {
	if len(t.files) == 0 {
		return nil
	}
	var ids strings.Builder
	for _, f := range t.files {
		ids.WriteString(f.id + "\n")
	}
	return background.Pipe(ctx, func(ctx context.Context, p io.Writer) error {
		_, _, err := m.Run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(ids.String()), Stdout: p})
		return mirrorError(err)
	}, t.write)
}

// write writes files that come from `git cat-file --batch`.
func (t *treeWriter) write(ctx context.Context, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for _, one := range t.files {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		f := strings.Fields(line) // ID TYPE SIZE
		if len(f) == 2 {
			continue // a partial clone does not have it
		}
		size, err := strconv.ParseInt(f[len(f)-1], 10, 64)
		if err != nil {
			return fmt.Errorf("git says %q of %q", line, one.name)
		}
		if err := errors.Join(ctx.Err(), t.one(one, size, io.LimitReader(in, size))); err != nil {
			return err
		}
		if _, err := in.Discard(1); err != nil {
			return err
		}
	}
	return nil
}

// one writes one file, or remembers a link.
func (t *treeWriter) one(file fileOfTree, size int64, r io.Reader) error {
	t.mu.Lock()
	t.left -= size
	left := t.left
	t.mu.Unlock()
	if left < 0 {
		return workspace.TooLarge(maxTree)
	}
	if file.mode == "120000" {
		target, err := io.ReadAll(r)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.links[file.name] = string(target)
		return err
	}
	perm := os.FileMode(0o644)
	if file.mode == "100755" {
		perm = 0o755
	}
	if err := t.root.MkdirAll(filepath.Dir(file.name), 0o755); err != nil {
		return err
	}
	f, err := t.root.OpenFile(file.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close(), t.root.Chtimes(file.name, t.at, t.at))
}
