package workspace

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// MaxCommits is how many commits of a repository are counted and named, newest first, besides those
// that its refs point to.
const MaxCommits = 1000

// Commit is one commit of a box, as the box reports it. Title is the first line of its message
// and may hold anything except a newline.
type Commit struct{ ID, Title string }

// Unsaved returns which of the files that are uncommitted in a box ("MODE BLOB PATH"; an all-zero
// mode marks a deleted file) are lost with it, as the box's git quoted their names. They are compared
// with the checkout as it is now, and with the last pull from the box, which the ref memory records
// (MoveBranch), as long as a branch has it. All of it is untrusted: paths can be anything.
func Unsaved(ctx context.Context, repo Repo, changed []string, memory string) ([]string, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	v, done, err := Objects(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer done()
	pulled, err := pulledFiles(ctx, v, repo, memory)
	if err != nil {
		return nil, err
	}
	if pulled != nil {
		changed = slices.DeleteFunc(slices.Clone(changed), func(line string) bool { return parseChange(line).isIn(pulled) })
	}
	return Differing(ctx, v, repo, ".", changed)
}

// Paths returns the names of changed files, quoted as the box's git printed them, in a directory of
// the workspace.
func Paths(dir string, changed []string) []string {
	var paths []string
	for _, line := range changed {
		paths = append(paths, parseChange(line).in(dir).path)
	}
	return paths
}

// pulledFiles returns the modes and blobs ("MODE BLOB") of the files of the commit that the ref
// memory names, by path, or nil if there is no such ref or no branch contains the commit: one that
// the user has deleted no longer keeps the work.
func pulledFiles(ctx context.Context, v *git.View, repo Repo, memory string) (map[string]string, error) {
	commit, err := resolve(ctx, repo, memory)
	if err != nil || commit == "" {
		return nil, err
	}
	branches, err := ask(ctx, repo.Root, "for-each-ref", "--count=1", "--contains="+commit, "refs/heads")
	if err != nil || len(branches) == 0 {
		return nil, explain(err, repo.Root)
	}
	out, _, err := v.Run(ctx, git.Call{Dir: repo.Root, Args: []string{"ls-tree", "-r", "-z", "--full-tree", commit}})
	if err != nil {
		return nil, explain(err, repo.Root)
	}
	files := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		fields, path, ok := strings.Cut(entry, "\t") // MODE TYPE BLOB
		if f := strings.Fields(fields); ok && len(f) == 3 {
			files[path] = f[0] + " " + f[2]
		}
	}
	return files, nil
}

// Unkept returns the commits that the checkout does not keep: those that no ref and no HEAD of its
// work trees contains, nor an entry of its stash, nor base, which may be "". An object that merely
// lies there, for example after a pull that could not make its branch, is lost with the next git
// gc. The record of the last pull keeps nothing either, since a user who deletes the branch does
// not see that ref. v shows the checkout's objects. On an error all commits are returned with it.
func Unkept(ctx context.Context, v *git.View, repo Repo, ids []string, base string) ([]string, error) {
	have, err := git.Commits(ctx, v, ids...)
	if err != nil || len(have) == 0 {
		return ids, explain(err, repo.Root)
	}
	keeping, err := tips(ctx, repo)
	if err != nil {
		return ids, err
	}
	list := slices.Collect(maps.Keys(have))
	for _, id := range append(keeping, base) {
		if isHex(id) {
			list = append(list, "^"+id)
		}
	}
	// A ref may name a missing object, and base may be missing.
	out, _, err := v.Run(ctx, git.Call{Args: []string{"rev-list", "--ignore-missing", "--stdin"}, Stdin: strings.NewReader(strings.Join(list, "\n") + "\n")})
	if err != nil {
		return ids, explain(err, repo.Root)
	}
	for id := range strings.FieldsSeq(string(out)) {
		delete(have, id)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return have[id] }), nil
}

// pulledRefs are the refs that record the last pull from each box.
const pulledRefs = "refs/agentbox/pulled/"

// tips returns the objects that git keeps for the user of a checkout, with all that they contain:
// those of refs, of the HEADs of work trees, and of the stash. Some may be no object names.
func tips(ctx context.Context, repo Repo) (ids []string, err error) {
	refs, err := ask(ctx, repo.Root, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, explain(err, repo.Root)
	}
	for line := range strings.Lines(string(refs)) {
		if id, name, _ := strings.Cut(line, " "); !strings.HasPrefix(name, pulledRefs) {
			ids = append(ids, id)
		}
	}
	// A HEAD on a branch is no name, and its branch is among the refs.
	dirs := []string{repo.CommonDir}
	trees, _ := git.ReadDir(filepath.Join(repo.CommonDir, "worktrees")) // usually there is none
	for _, tree := range trees {
		dirs = append(dirs, filepath.Join(repo.CommonDir, "worktrees", tree.Name()))
	}
	for _, dir := range dirs {
		if head, err := git.ReadPlain(filepath.Join(dir, "HEAD"), maxPointer); err == nil {
			ids = append(ids, strings.TrimSpace(string(head)))
		}
	}
	return append(append(ids, repo.Commit), stashes(repo)...), nil
}

// maxStashes bounds the size of the log of the stash that is read, in bytes.
const maxStashes = 16 << 20

// stashes returns the commits of a checkout's stash. Git keeps all but the latest only in the log
// of the ref. If that cannot be read there are none, and rm asks although nothing would be lost.
func stashes(repo Repo) (ids []string) {
	log, err := git.ReadPlain(filepath.Join(repo.CommonDir, "logs/refs/stash"), maxStashes)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 1 { // OLD NEW ...
			ids = append(ids, f[1])
		}
	}
	return ids
}

// leftBehind matches a line of a HEAD's log that names a commit which was checked out without a branch
// and then left: OLD NEW WHO <tab> checkout: moving from OLD to OTHER.
var leftBehind = agentbox.Pattern(`\tcheckout: moving from ([0-9a-f]{40,64}) to `)

// Adrift returns commits that a checkout's git directory names in no ref: those that were left on no
// branch, and those of an interrupted operation. They do not keep anything, but what a box has of
// them came from here.
func Adrift(repo Repo) (ids []string) {
	if log, err := git.ReadPlain(filepath.Join(repo.GitDir, "logs/HEAD"), maxStashes); err == nil {
		for _, m := range leftBehind().FindAllSubmatch(log, -1) {
			ids = append(ids, string(m[1]))
		}
	}
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_AUTOSTASH", "rebase-merge/orig-head", "rebase-merge/autostash", "rebase-apply/orig-head", "rebase-apply/autostash"} {
		if text, err := git.ReadPlain(filepath.Join(repo.GitDir, name), maxPointer); err == nil {
			ids = append(ids, strings.Fields(string(text))...)
		}
	}
	return ids
}

// Nested opens the repository at path in a checkout, which a box named. There is none if path is no
// name in it, or leads out of it.
func Nested(ctx context.Context, repo Repo, path string) (Repo, bool) {
	if !ValidName(path) {
		return Repo{}, false
	}
	root := filepath.Join(repo.Root, filepath.FromSlash(path))
	if !exists(filepath.Join(root, ".git")) {
		return Repo{}, false
	}
	nested, err := Describe(ctx, root)
	return nested, err == nil && nested.Root == root
}

// Partial reports whether a checkout is a partial clone: it has some objects of its history, and
// gets others from where it was cloned when git needs them.
func (r Repo) Partial() bool {
	packs, err := git.ReadDir(filepath.Join(r.CommonDir, "objects", "pack"))
	return err == nil && slices.ContainsFunc(packs, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".promisor") })
}
