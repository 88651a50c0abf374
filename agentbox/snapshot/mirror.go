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
	"agentbox/agentbox/workspace"
)

// mirror is the bare repository of a project on this host. Only this package writes it: its
// configuration is ours, it has no hooks, and all its refs are below refs/agentbox/. Methods may be
// called at once, by processes, too. Errors of git's that are not expected become unwritable.
type mirror struct{ dir string }

// Refs of the mirror.
const (
	namespace   = "refs/agentbox/"
	basesRef    = namespace + "bases/"    // commits that boxes began with
	beginsRef   = namespace + "begins/"   // what was uncommitted when boxes began
	wholesRef   = namespace + "wholes/"   // <ref of the work>: the same with what was uncommitted when the box began
	branchesRef = namespace + "branches/" // <ref of the work>/<number>: what HEAD did not lead to
)

// TaskRef is the ref of a task's work, in the mirror and in the checkout it came from. id is
// agentbox.TaskID's text.
func TaskRef(id string) string { return namespace + "tasks/" + id }

// BoxRef is the ref of what a box held when somebody last looked.
func BoxRef(id agentbox.BoxID) string { return namespace + "boxes/" + id.String() }

// Again is what Keep has kept, from what was written down of it. dir is home.Mirror of the project.
func Again(dir string, kept Kept) Kept {
	kept.Whole, kept.Mirror = kept.Commit, mirrorFor(dir, len(kept.Commit))
	return kept
}

// mirrorFor is the mirror for objects whose names have so many digits.
func mirrorFor(dir string, digits int) string {
	if digits == 64 {
		return strings.TrimSuffix(dir, ".git") + "-sha256.git"
	}
	return dir
}

// openMirror makes the mirror when it is not there. One of another format of objects lies beside
// it. digits are those of the names of objects. It is made beside its place and renamed, so it is
// whole or not there.
func openMirror(ctx context.Context, dir string, digits int) (mirror, error) {
	dir = mirrorFor(dir, digits)
	m := mirror{dir}
	if exists(filepath.Join(dir, "HEAD")) {
		return m, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return m, unwritable(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return m, unwritable(err)
	}
	defer os.RemoveAll(fresh)
	args := []string{"init", "-q", "--bare", "--template=", "--initial-branch=none"}
	if digits == 64 {
		args = append(args, "--object-format=sha256")
	}
	if _, _, err := git.Run(ctx, git.Call{Dir: fresh, Args: append(args, fresh)}); err != nil {
		return m, unwritable(err)
	}
	// Another may have made it meanwhile: then theirs stays.
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) && !exists(filepath.Join(dir, "HEAD")) {
		return m, unwritable(err)
	}
	return m, nil
}

// exists tells that something has the name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unwritable is the error for a mirror in which git failed: its disk may be full. It is nil for none.
func unwritable(err error) error {
	if err == nil {
		return nil
	}
	return agentbox.Errorf(agentbox.Internal, "cannot write the mirror of the project: %w", err)
}

// Run runs git in the mirror (git.Repository).
func (m mirror) Run(ctx context.Context, c git.Call) (stdout []byte, stderr string, err error) {
	c.Dir, c.Env = m.dir, slices.Concat([]string{"GIT_DIR=" + m.dir}, c.Env)
	return git.Run(ctx, c)
}

// git is Run for short answers: what git prints is held in memory.
func (m mirror) git(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	out, _, err := m.Run(ctx, git.Call{Args: args, Stdin: stdin})
	return string(out), err
}

// has tells which of the commits the mirror has (git.Commits).
func (m mirror) has(ctx context.Context, commits ...string) (map[string]bool, error) {
	have, err := git.Commits(ctx, m, commits...)
	return have, unwritable(err)
}

// emptyTree is a tree without files.
func (m mirror) emptyTree(ctx context.Context) (string, error) {
	id, err := m.git(ctx, strings.NewReader(""), "mktree")
	return strings.TrimSpace(id), unwritable(err)
}

// maxHave bounds the commits by which a box finds out what need not be sent. They are passed in a
// variable of the environment.
const maxHave = 50

// tips are the newest commits that the mirror has refs to.
func (m mirror) tips(ctx context.Context) ([]string, error) {
	out, err := m.git(ctx, nil, "for-each-ref", "--sort=-committerdate", fmt.Sprintf("--count=%d", maxHave), "--format=%(objectname)")
	if err != nil {
		return nil, unwritable(err)
	}
	ids := strings.Fields(out)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// lenient are mistakes of old tools that many histories have and that harm nobody.
const lenient = "--strict=zeroPaddedFilemode=ignore,missingSpaceBeforeDate=ignore,badTimezone=ignore,missingNameBeforeEmail=ignore,nullSha1=ignore,gitmodulesParse=ignore"

// take adds the objects of a pack, checked one by one, of at most limit bytes. Only when all that
// the tips lead to is there does anything become part of the mirror. The objects are in a
// quarantine until then, which git itself does for a push. tips are full hex. NoSpace beyond limit,
// Corrupt for what git refuses.
func (m mirror) take(ctx context.Context, pack io.Reader, limit int64, tips []string) error {
	// In the mirror, so that adopting a pack is a rename.
	quarantine, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return unwritable(err)
	}
	defer os.RemoveAll(quarantine)
	env := []string{"GIT_OBJECT_DIRECTORY=" + quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(m.dir, "objects")}
	if _, _, err := m.Run(ctx, git.Call{Env: env, Stdin: pack, Stdout: io.Discard,
		Args: []string{"index-pack", "--stdin", "--fix-thin", lenient, fmt.Sprintf("--max-input-size=%d", limit)}}); err != nil {
		return refused(err, limit)
	}
	list := strings.NewReader(strings.Join(tips, "\n") + "\n")
	// index-pack has looked at each object by itself; this finds out that none is missing.
	if _, _, err := m.Run(ctx, git.Call{Env: env, Stdin: list, Stdout: io.Discard, Args: []string{"rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"}}); err != nil {
		return refused(err, limit)
	}
	return m.adopt(filepath.Join(quarantine, "pack"))
}

// refused is the error for a pack that git did not take.
func refused(err error, limit int64) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	if strings.Contains(failed.Stderr, "exceeds maximum allowed size") {
		return agentbox.Errorf(agentbox.NoSpace, "the work in the box is larger than %d MiB", limit>>20).
			WithHint("copy what matters: agentbox cp BOX:PATH DIR")
	}
	return agentbox.Errorf(agentbox.Corrupt, "git refuses what the box sent: %s", agentbox.Printable(failed.Error()))
}

// adopt moves packs into the mirror, the index of each last: without it git does not look at a
// pack.
func (m mirror) adopt(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(err)
	}
	// Two boxes may bring the same pack: its name is its content's, so either of them is right.
	for _, suffix := range []string{".pack", ".rev", ".idx"} {
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), suffix) {
				continue
			}
			if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(m.dir, "objects", "pack", e.Name())); err != nil {
				return unwritable(err)
			}
		}
	}
	return nil
}

// setRefs makes each of the refs name a commit that the mirror has, wherever it pointed: all of them
// or none.
func (m mirror) setRefs(ctx context.Context, refs map[string]string) error {
	var in strings.Builder
	for ref, commit := range refs {
		fmt.Fprintf(&in, "update %s %s\n", ref, commit)
	}
	_, err := m.git(ctx, strings.NewReader(in.String()), "update-ref", "--no-deref", "--stdin")
	return unwritable(err)
}

// seed takes the history up to a commit from a checkout of the user's, so that boxes send only what
// is new. The commit gets a ref below bases/, which keeps it when git collects garbage.
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
	// What mirror and checkout both have need not be packed.
	known, err := git.Commits(ctx, view, have...)
	if err != nil {
		return err
	}
	err = background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return git.Pack(ctx, view, w, commit, slices.Collect(maps.Keys(known))...)
	}, func(ctx context.Context, r io.Reader) error {
		_, err := m.git(ctx, r, "index-pack", "--stdin", "--fix-thin")
		return err
	})
	if err != nil {
		return unwritable(err)
	}
	return m.setRefs(ctx, map[string]string{basesRef + commit: commit})
}

// borrowing is held while a mirror's file shallow is changed, which git does not lock for us: one
// process, the daemon, writes all mirrors.
var borrowing sync.Mutex

// borrowShallow takes over where the history of a shallow checkout ends, for commits that the
// mirror does not have: one that it has would lose its history there. Lines that name no object are
// left out, as git refuses to work in a repository that has one, and the mirror is that of all
// checkouts of the project.
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
	have, err := m.has(ctx, ends...)
	if err != nil {
		return err
	}
	if ends = slices.DeleteFunc(ends, func(id string) bool { return have[id] }); len(ends) == 0 {
		return nil
	}
	borrowing.Lock()
	defer borrowing.Unlock()
	path := filepath.Join(m.dir, "shallow")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable(err)
	}
	ends = append(ends, strings.Fields(string(old))...)
	slices.Sort(ends)
	return unwritable(durable.WriteFile(path, []byte(strings.Join(slices.Compact(ends), "\n")+"\n"), 0o600))
}

// export gives a checkout the objects of a commit and a ref to it. Nothing else there changes. ref
// "" sets none. base is what the checkout most likely has, and need not be sent.
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
	err = background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return git.Pack(ctx, m, w, commit, slices.Collect(maps.Keys(known))...)
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
