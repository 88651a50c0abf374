package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/git/objects"
	"agentbox/agentbox/workspace"
)

// mirror is the bare repository of a project on this host. Only this package writes it: it
// controls the configuration, there are no hooks, and all refs are below refs/agentbox/.
// Unexpected errors of git become mirrorError.
//
// Methods are safe for concurrent use by the goroutines of one process, which is the daemon: a home
// has one, which holds its lock, and no other process writes mirrors. Git locks the refs it
// changes, objects and packs appear by a rename, and shallowMutex guards the shallow file. A git
// that a killed daemon has left behind changes refs and objects only, so it may run beside the next
// daemon's.
type mirror struct{ dir string }

// Refs of the mirror.
const (
	namespace   = "refs/agentbox/"
	basesRef    = namespace + "bases/"    // commits that boxes began with
	beginsRef   = namespace + "begins/"   // what was uncommitted when boxes began
	wholesRef   = namespace + "wholes/"   // <ref of the work>: Kept.Whole
	restsRef    = namespace + "rests/"    // <ref of the work>: Kept.Rest
	branchesRef = namespace + "branches/" // <ref of the work>/<number>: branches and stashes that HEAD does not contain
)

// TaskRef returns the ref of a task's work, in the mirror and in the checkout. id is the text of
// an agentbox.TaskID.
func TaskRef(id string) string { return namespace + "tasks/" + id }

// BoxRef returns the ref of the work of a box, as it was when last kept.
func BoxRef(id agentbox.BoxID) string { return namespace + "boxes/" + id.String() }

// Rebuild rebuilds a result of Keep from its saved form. dir is the project's home.Mirror.
func Rebuild(dir string, kept Kept, others []agentbox.OtherWork) Kept {
	kept.Whole, kept.Mirror = kept.Commit, mirrorFor(dir, len(kept.Commit))
	for _, o := range others {
		kept.OtherRefs = append(kept.OtherRefs, Branch{OtherWork: o})
	}
	return kept
}

// mirrorFor returns the path of the mirror for objects whose names have that many hex digits.
func mirrorFor(dir string, digits int) string {
	if digits == 64 {
		return strings.TrimSuffix(dir, ".git") + "-sha256.git"
	}
	return dir
}

// openMirror opens the mirror for objects whose names have that many hex digits, and creates it
// if necessary. A mirror of another object format lies beside it. A new mirror is made under a
// temporary name and renamed, so it is either complete or absent.
func openMirror(ctx context.Context, dir string, digits int) (mirror, error) {
	dir = mirrorFor(dir, digits)
	m := mirror{dir}
	if exists(filepath.Join(dir, "HEAD")) {
		return m, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return m, mirrorError(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return m, mirrorError(err)
	}
	defer os.RemoveAll(fresh)
	args := []string{"init", "-q", "--bare", "--template=", "--initial-branch=none"}
	if digits == 64 {
		args = append(args, "--object-format=sha256")
	}
	if _, _, err := git.Run(ctx, git.Call{Dir: fresh, Args: append(args, fresh)}); err != nil {
		return m, mirrorError(err)
	}
	// Another goroutine may have created it meanwhile; keep that one.
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) && !exists(filepath.Join(dir, "HEAD")) {
		return m, mirrorError(err)
	}
	return m, nil
}

// Sweep removes what a killed daemon left in the directory of all mirrors: packs and files that
// were coming in, and mirrors that were being made. The caller is the next daemon, before it uses
// mirrors. A git that was left behind may still write there; nobody waits for it, so it may fail.
func Sweep(mirrors string) error {
	return mirrorError(durable.Sweep(mirrors, ".new-*", "*.git/incoming-*", "*.git/objects/pack/tmp_*"))
}

// exists reports whether path exists, including as a dangling link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// mirrorError returns the error for a failure of git in a mirror, for example on a full disk. It
// returns nil if err is nil.
func mirrorError(err error) error {
	if err == nil {
		return nil
	}
	return agentbox.Errorf(agentbox.Internal, "cannot write the mirror of the project: %w", err)
}

// Run runs git in the mirror (git.Repository). Git waits until its objects and refs are on disk: a
// box is removed once its work is kept, and a power loss must not empty what was written last.
func (m mirror) Run(ctx context.Context, c git.Call) (stdout []byte, stderr string, err error) {
	c.Dir, c.Env = m.dir, slices.Concat([]string{"GIT_DIR=" + m.dir}, c.Env)
	c.Args = slices.Concat([]string{"-c", "core.fsync=committed"}, c.Args)
	return git.Run(ctx, c)
}

// git is Run for short outputs, which it holds in memory.
func (m mirror) git(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	out, _, err := m.Run(ctx, git.Call{Args: args, Stdin: stdin})
	return string(out), err
}

// has reports which of the commits the mirror has (git.Commits). Git is asked of those only that are not
// found without it.
func (m mirror) has(ctx context.Context, commits ...string) (map[string]bool, error) {
	have := m.find(commits)
	left := slices.DeleteFunc(slices.Clone(commits), func(id string) bool { return have[id] || id == "" })
	if len(left) == 0 {
		return have, nil
	}
	more, err := git.Commits(ctx, m, left...)
	maps.Copy(have, more)
	return have, mirrorError(err)
}

// find looks for commits without git.
func (m mirror) find(commits []string) map[string]bool {
	have := map[string]bool{}
	here, err := objects.Open(filepath.Join(m.dir, "objects"))
	if err != nil {
		return have
	}
	defer here.Close()
	for _, name := range commits {
		if id, err := objects.ParseID(name); err == nil && !have[name] {
			if o, err := here.Read(id, maxFact); err == nil && o.Kind == objects.Commit {
				have[name] = true
			}
		}
	}
	return have
}

// emptyTree returns the object name of an empty tree, which it writes to the mirror.
func (m mirror) emptyTree(ctx context.Context) (string, error) {
	id, err := m.git(ctx, strings.NewReader(""), "mktree")
	return strings.TrimSpace(id), mirrorError(err)
}

// maxHave bounds the commits that a box is told the host has.
const maxHave = 1000

// tips returns the newest commits that refs of the mirror point to.
func (m mirror) tips(ctx context.Context) ([]string, error) {
	out, err := m.git(ctx, nil, "for-each-ref", "--sort=-committerdate", fmt.Sprintf("--count=%d", maxHave), "--format=%(objectname)")
	if err != nil {
		return nil, mirrorError(err)
	}
	ids := strings.Fields(out)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// setRefs points all of the refs at commits that the mirror has, wherever they pointed before,
// or changes none.
func (m mirror) setRefs(ctx context.Context, refs map[string]string) error {
	var in strings.Builder
	for ref, commit := range refs {
		fmt.Fprintf(&in, "update %s %s\n", ref, commit)
	}
	_, err := m.git(ctx, strings.NewReader(in.String()), "update-ref", "--no-deref", "--stdin")
	return mirrorError(err)
}

// seed copies the history of a commit from the user's checkout, so that boxes send only new
// objects. A ref below bases/ keeps the commit from garbage collection.
func (m mirror) seed(ctx context.Context, repo workspace.Repo, commit string) error {
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	if err := m.borrowShallow(ctx, repo); err != nil {
		return err
	}
	have, err := m.tips(ctx)
	if err != nil {
		return err
	}
	// Skip what mirror and checkout both have.
	known, err := git.Commits(ctx, view, have...)
	if err != nil {
		return err
	}
	pack := git.Pack
	if repo.Partial() {
		pack = git.PackPresent
		if err := os.WriteFile(filepath.Join(m.dir, promised), nil, 0o600); err != nil {
			return mirrorError(err)
		}
	}
	err = m.index(ctx, func(ctx context.Context, w io.Writer) error {
		return pack(ctx, view, w, commit, slices.Collect(maps.Keys(known))...)
	}, func(packs string) {
		if len(have) == 0 && !repo.Partial() {
			_ = m.keepHistory(packs, commit) // it is only faster with it
		}
	})
	if err != nil {
		return err
	}
	return m.setRefs(ctx, map[string]string{basesRef + commit: commit})
}

// promised is a file in a mirror that once got the history of a partial clone, so that objects of
// commits that it has may be missing.
const promised = "agentbox-partial"

// complete copies the files of a commit that the mirror has without them, since it came from a
// partial clone, as far as this checkout has them.
func (m mirror) complete(ctx context.Context, repo workspace.Repo, commit string) error {
	if !exists(filepath.Join(m.dir, promised)) {
		return nil
	}
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	out, _, err := view.Run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-t", commit}})
	if err != nil {
		return mirrorError(err)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 3 { // MODE TYPE ID PATH
			ids = append(ids, f[2])
		}
	}
	lacking, err := git.Lacking(ctx, m, ids)
	if err != nil || len(lacking) == 0 {
		return mirrorError(err)
	}
	absent, err := git.Lacking(ctx, view, lacking)
	if err != nil {
		return mirrorError(err)
	}
	gone := map[string]bool{}
	for _, id := range absent {
		gone[id] = true
	}
	present := slices.DeleteFunc(lacking, func(id string) bool { return gone[id] })
	if len(present) == 0 {
		return nil
	}
	return m.index(ctx, func(ctx context.Context, w io.Writer) error { return git.PackObjects(ctx, view, w, present) }, func(string) {})
}

// shallowMutex serialises the changes of all mirrors' shallow files, each of which reads the file
// and replaces it. The daemon is the only process that changes them (see mirror).
var shallowMutex sync.Mutex

// borrowShallow copies the boundaries of a shallow checkout's history for commits that the
// mirror lacks; a boundary at a commit it has would cut off history there. It skips lines that
// name no object: git refuses to work in a repository with such a line, and all checkouts of the
// project share the mirror.
func (m mirror) borrowShallow(ctx context.Context, repo workspace.Repo) error {
	const maxShallow = 1 << 20
	data, err := git.ReadPlain(filepath.Join(repo.CommonDir, "shallow"), maxShallow)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ends := slices.DeleteFunc(strings.Fields(string(data)), func(id string) bool { return !isObject(id, len(repo.Commit)) })
	return m.addShallow(ctx, ends)
}

// export copies the objects of a commit to a checkout and sets ref there, unless ref is "". It
// changes nothing else. base is a commit that the checkout probably has, which need not be sent.
func (m mirror) export(ctx context.Context, repo workspace.Repo, commit, base, ref string) error {
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	known, err := git.Commits(ctx, view, base)
	if err != nil {
		return err
	}
	pack := git.Pack
	if repo.Partial() {
		pack = git.PackPresent
	}
	err = background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return pack(ctx, m, w, commit, slices.Collect(maps.Keys(known))...)
	}, func(ctx context.Context, r io.Reader) error {
		_, _, err := view.Run(ctx, git.Call{Args: []string{"index-pack", "--stdin", "--fix-thin"}, Stdin: r, Stdout: io.Discard})
		return err
	})
	if err != nil {
		return agentbox.Errorf(agentbox.Internal, "cannot bring the work into %s: %w", repo.Root, err)
	}
	if ref == "" {
		return nil
	}
	return workspace.SetRef(ctx, repo, ref, commit)
}
