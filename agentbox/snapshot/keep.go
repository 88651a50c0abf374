package snapshot

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/git"
	"agentbox/agentbox/host/keyed"
	"agentbox/agentbox/workspace"
)

// Request says what to keep of a box, and where. Mirror and Ref are required, and so is Base
// unless the box began without a commit.
type Request struct {
	Mirror        string        // the project's mirror (home.Mirror); created if missing
	Ref           string        // the ref to set in it: TaskRef or BoxRef
	Base          string        // the commit that the workspace began with; "" for none
	Baseline      string        // the directory that RecordBaseline wrote for the box; if "" or absent, everything was committed
	Checkout      string        // the checkout, or the tree of the source, that the box came from; may be "" or gone
	SkipUntouched bool          // return early, with no ref and Kept.Nothing true, if a quick look at git finds the box unchanged
	ExportTo      string        // the checkout in which the ref is set, too; "" for none
	Rest          bool          // keep what restores the workspace exactly, too (Kept.Rest)
	Artifacts     []string      // globs of the ignored files that Rest has
	All           bool          // keep other branches and repositories although the checkout has them
	Dir           string        // the workspace in the box; "" is DefaultDir
	Limit         int64         // maximum bytes to read from the box; 0 is DefaultLimit
	Timeout       time.Duration // for the whole call; 0 is DefaultTimeout
}

// Defaults for the zero values of a Request.
const (
	DefaultDir     = "/workspace"
	DefaultLimit   = 4 << 30
	DefaultTimeout = 10 * time.Minute
)

// Kept describes what was kept. Its commits are full hex and exist in the mirror.
type Kept struct {
	Ref       string
	Commit    string   // the box's work; equal to Head if nothing was uncommitted
	Whole     string   // Commit plus what was uncommitted when the box began, where that still exists
	Baseline  string   // Base plus what was uncommitted when the box began; "" if nothing was
	Same      bool     // nothing changed since Baseline, except for commits
	Mixed     bool     // Commit includes what was uncommitted at the beginning, because the two cannot be told apart
	Branch    string   // that was checked out, without refs/heads/; "" for none
	Head      string   // what was checked out; "" before the first commit
	Base      string   // as requested
	Commits   int      // commits in Head that Base does not contain
	Files     int      // files that were uncommitted or changed
	Rest      string   // a commit with the index, modes, times and artifacts; "" if the commits tell all
	OtherRefs []Branch // what the box has and the checkout lacks besides Commit
	Missing   []string // what could not be kept and why, one line each
	Notes     []string // what was kept in another form, one line each
	// Unexported says why the checkout did not get Ref although it was requested. The mirror has
	// the ref, so nothing is lost.
	Unexported string
	Mirror     string // where it was kept
	// Holder is that of the Document to be made of it.
	Holder string

	exact bool     // Head and Whole are set, and need not be found by Ref
	sent  *os.File // the pack that WriteWork would make; nil if it has to
}

// Keep saves the work done in a box under a ref in the project's mirror; see the package
// comment. It changes nothing in the box and lists in Kept.Missing what it could not save. If
// git in the box is missing or its repository damaged, Keep saves all files that the ignore
// rules do not exclude, on top of Base. An error means that nothing was kept. Keep may be
// repeated, and may run for several boxes of one project at once. Errors: NoSpace if the box
// sends more than Limit; Unavailable after Timeout or if the box does not respond; Conflict if
// the box's answer is invalid and its files cannot be read either.
func Keep(ctx context.Context, g Guest, req Request) (Kept, error) {
	if !strings.HasPrefix(req.Ref, namespace) || path.Clean(req.Ref) != req.Ref {
		return Kept{}, agentbox.Errorf(agentbox.Internal, "%q is no ref for work", req.Ref)
	}
	k, ctx, cancel := newKeepRun(ctx, g, req)
	defer cancel()
	if err := k.keep(ctx); err != nil {
		return Kept{}, k.explain(ctx, err)
	}
	return k.kept, nil
}

// newKeepRun begins a run, with defaults for what the request leaves out.
func newKeepRun(ctx context.Context, g Guest, req Request) (*keepRun, context.Context, context.CancelFunc) {
	req.Dir, req.Limit, req.Timeout = cmp.Or(req.Dir, DefaultDir), cmp.Or(req.Limit, DefaultLimit), cmp.Or(req.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, req.Timeout, agentbox.Errorf(agentbox.Unavailable, "the work in the box could not be kept within %s", req.Timeout))
	return &keepRun{req: req, guest: g, kept: Kept{Ref: req.Ref, Base: req.Base}}, ctx, cancel
}

// explain returns the error of a run: why its time is over, or err.
func (k *keepRun) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// keepRun is one run of Keep or Unsaved, used once and by one goroutine.
type keepRun struct {
	req    Request
	guest  Guest
	repo   *workspace.Repo // the checkout; nil if it is gone
	mirror mirror
	kept   Kept
}

// keep sets each ref only after its objects are in the mirror. A failure before the work's ref
// is set leaves unused objects and refs in the mirror, which the next run reuses.
func (k *keepRun) keep(ctx context.Context) error {
	if k.req.SkipUntouched && k.untouched(ctx) {
		k.kept.Commit, k.kept.Whole, k.kept.Head = k.req.Base, k.req.Base, k.req.Base
		return nil
	}
	if err := k.prepare(ctx); err != nil {
		return err
	}
	f, err := k.fetchWork(ctx)
	if err != nil {
		return err
	}
	workspace := &f.trees[0]
	if err := k.separateWork(ctx, workspace); err != nil {
		return err
	}
	k.kept.Commit, k.kept.Head, k.kept.Files, k.kept.Mirror, k.kept.Rest = workspace.top, workspace.head, workspace.files, k.mirror.dir, f.rest
	if branch, is := strings.CutPrefix(workspace.ref, "refs/heads/"); is {
		k.kept.Branch = branch
	}
	if err := k.setRefs(ctx, f); err != nil {
		return err
	}
	if err := k.count(ctx); err != nil {
		return err
	}
	k.export(ctx)
	return nil
}

// fetchWork brings the box's work into the mirror: through its git if possible, else as files. If
// the box cannot send all, for example since a history is incomplete, what is beside the workspace
// itself is named and not kept.
func (k *keepRun) fetchWork(ctx context.Context) (facts, error) {
	f, err := k.fetch(ctx, true)
	if code := agentbox.CodeOf(err); (f.failed != "" || code == agentbox.NoSpace) && len(f.own) > 0 && ctx.Err() == nil {
		f, err = k.fetch(ctx, false)
	}
	if err != nil {
		return f, err
	}
	k.kept.Missing, k.kept.Notes = append(k.kept.Missing, f.missing...), f.raw
	if f.failed == "" {
		return f, nil
	}
	k.kept.Missing = append(k.kept.Missing, "commits that were made in the box: "+f.failed)
	files, err := k.files(ctx)
	return files, err
}

// setRefs sets the refs of the work in the mirror, which has all their objects.
func (k *keepRun) setRefs(ctx context.Context, f facts) error {
	refs, name := map[string]string{k.req.Ref: f.trees[0].top}, strings.TrimPrefix(k.req.Ref, namespace)
	// If they are equal, the work's own ref is enough.
	if k.kept.Whole != k.kept.Commit {
		refs[wholesRef+name] = k.kept.Whole
	}
	if f.rest != "" {
		refs[restsRef+name] = f.rest
	}
	for i, b := range f.own {
		b.Ref = branchesRef + name + "/" + strconv.Itoa(i+1)
		refs[b.Ref] = b.Commit
		if i < maxCounted {
			var err error
			if b.Commits, err = k.countBeside(ctx, b); err != nil {
				return err
			}
		}
		k.kept.OtherRefs = append(k.kept.OtherRefs, b)
	}
	return k.mirror.setRefs(ctx, refs)
}

// prepare opens the mirror and ensures that it has what the box began with.
func (k *keepRun) prepare(ctx context.Context) error {
	digits := len(k.req.Base)
	if k.req.Checkout != "" {
		repo, err := workspace.Describe(ctx, k.req.Checkout)
		if err == nil {
			k.repo = &repo
			digits = max(digits, len(repo.Commit))
		}
	}
	var err error
	if k.mirror, err = openMirror(ctx, k.req.Mirror, digits); err != nil {
		return err
	}
	if err := k.seedBase(ctx); err != nil {
		return err
	}
	return k.begin(ctx)
}

// seeding is held, by the directory of a mirror, while that gets a history.
var seeding keyed.Locks

// seedBase copies the base from the checkout to the mirror, so that the box sends only new
// objects. This is an optimisation, so its failure is not an error.
func (k *keepRun) seedBase(ctx context.Context) error {
	if k.req.Base == "" {
		return nil
	}
	defer seeding.Lock(k.mirror.dir)() // two at once would bring a history twice
	have, err := k.mirror.has(ctx, k.req.Base)
	if err != nil || k.repo == nil {
		return err
	}
	if have[k.req.Base] {
		err = k.mirror.complete(ctx, *k.repo, k.req.Base)
	} else {
		err = k.mirror.seed(ctx, *k.repo, k.req.Base)
	}
	if err != nil && ctx.Err() != nil {
		return err
	} // without the base, the box sends everything
	return nil
}

// errFormat reports objects whose names have another length than the mirror's.
var errFormat = errors.New("its objects have another format than the checkout's")

// fetch asks the box for its facts and takes the objects that the host lacks. It takes a single
// command. Without all, only those of the workspace itself.
func (k *keepRun) fetch(ctx context.Context, all bool) (facts, error) {
	var f facts
	err := ask(ctx, k.guest, k.question(), func(ctx context.Context, in *bufio.Reader, answer func(string)) (err error) {
		if f, err = readFacts(in); err != nil {
			return invalidAnswerError(err)
		}
		if f.failed != "" {
			return nil
		}
		if k.req.Base != "" && len(f.trees[0].top) != len(k.req.Base) {
			return invalidAnswerError(errFormat)
		}
		if err := f.findOwn(ctx, k.ownOf(), k.req.Base); err != nil {
			return err
		}
		f.leave(all)
		has, err := k.want(ctx, f, answer)
		if err != nil || has {
			return err
		}
		if line, err := bounded.ReadLine(in, maxFact); err != nil || string(line) != "pack" {
			return invalidAnswerError(fmt.Errorf("no pack follows: %q", line))
		}
		if err := k.accept(ctx, in, f); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(in, 1)) // git has read the whole pack
		return err
	})
	return f, k.classify(ctx, &f, err)
}

// ownOf is the checkout that what is kept is compared with; nil for none.
func (k *keepRun) ownOf() *workspace.Repo {
	if k.req.All {
		return nil
	}
	return k.repo
}

// want writes the answer to the facts: what the host wants, and what it has, which spares the box
// from sending the history. all tells that refs of the mirror name everything, as after an earlier
// look at the same work, and nothing is wanted.
func (k *keepRun) want(ctx context.Context, f facts, answer func(string)) (all bool, err error) {
	have, err := k.mirror.tips(ctx)
	if err != nil {
		return false, err
	}
	if k.req.All && !slices.ContainsFunc(f.tips(), func(id string) bool { _, found := slices.BinarySearch(have, id); return !found }) {
		return true, k.checkCommits(ctx, f)
	}
	more, err := k.known(ctx, f)
	if err != nil {
		return false, err
	}
	have = append(have, more...)
	var text strings.Builder
	for _, id := range f.tips() {
		text.WriteString(id + "\n")
	}
	for _, id := range have {
		text.WriteString("^" + id + "\n")
	}
	answer(text.String())
	return false, nil
}

// known are what is here of what a box has: the base, and, where nothing of them is missing, HEAD, on which
// deltas may build, and the tree of all files.
func (k *keepRun) known(ctx context.Context, f facts) ([]string, error) {
	commits, trees := []string{k.req.Base}, []string{}
	if !exists(filepath.Join(k.mirror.dir, promised)) {
		commits = append(commits, f.trees[0].head)
		if isObject(f.files, len(f.trees[0].top)) {
			trees = append(trees, f.files)
		}
	}
	has, err := k.mirror.has(ctx, commits...)
	if err != nil {
		return nil, err
	}
	lacking, err := git.Lacking(ctx, k.mirror, trees)
	if len(lacking) > 0 {
		trees = nil
	}
	return slices.AppendSeq(trees, maps.Keys(has)), mirrorError(err)
}

// accept takes the pack and verifies that the ids the box named are commits: the mirror's refs
// and the counts depend on it.
func (k *keepRun) accept(ctx context.Context, pack io.Reader, f facts) error {
	var err error
	if k.req.All && f.trees[0].head == k.req.Base && len(f.own) == 0 && !k.partial() {
		err = k.acceptWhole(ctx, pack, f.tips())
	} else {
		err = k.mirror.receivePack(ctx, pack, k.req.Limit, k.partial(), f.tips())
	}
	if err != nil {
		return err
	}
	return k.checkCommits(ctx, f)
}

// checkCommits checks that what the box named are commits that the mirror has.
func (k *keepRun) checkCommits(ctx context.Context, f facts) error {
	tips := f.tips()
	if head := f.trees[0].head; head != "" {
		tips = append(tips, head)
	}
	have, err := k.mirror.has(ctx, tips...)
	if i := slices.IndexFunc(tips, func(id string) bool { return !have[id] }); err == nil && i >= 0 {
		err = invalidAnswerError(fmt.Errorf("%.12s is not a commit", tips[i]))
	}
	return err
}

// partial reports whether the checkout has only some of the objects of its history.
func (k *keepRun) partial() bool { return k.repo != nil && k.repo.Partial() }

// classify decides what a failure means. A pack that git refuses (Corrupt) or an answer that cannot
// be parsed (Conflict) sets f.failed, so that files are kept instead. Any other error, such as
// an unreachable box or too much data, is returned.
func (k *keepRun) classify(ctx context.Context, f *facts, err error) error {
	code := agentbox.CodeOf(err)
	if err == nil || ctx.Err() != nil || code != agentbox.Corrupt && code != agentbox.Conflict {
		return err
	}
	f.failed = agentbox.AsError(err).Message
	return nil
}

// maxCounted is how many branches have their commits counted, which takes two processes each.
const maxCounted = 50

// countBeside counts the commits of a branch that the base lacks. It is 0 for a history that has
// nothing in common with the base's, of another repository for example.
func (k *keepRun) countBeside(ctx context.Context, b Branch) (int, error) {
	if _, err := k.mirror.git(ctx, nil, "merge-base", k.req.Base, b.Commit); err != nil || k.req.Base == "" {
		return 0, ctx.Err()
	}
	n, err := k.mirror.git(ctx, nil, "rev-list", "--count", b.Commit, "^"+k.req.Base)
	if err != nil {
		return 0, mirrorError(err)
	}
	commits, err := strconv.Atoi(strings.TrimSpace(n))
	if b.Files > 0 {
		commits-- // the one that has them
	}
	return commits, err
}

// count sets the number of commits made in the box. Without the base in the mirror, all commits
// count.
func (k *keepRun) count(ctx context.Context) error {
	if k.kept.Head == "" {
		return nil
	}
	args := []string{"rev-list", "--count", k.kept.Head}
	if has, err := k.mirror.has(ctx, k.req.Base); err == nil && has[k.req.Base] {
		if k.kept.Head == k.req.Base {
			return nil
		}
		args = append(args, "^"+k.req.Base)
	}
	out, err := k.mirror.git(ctx, nil, args...)
	if err != nil {
		return mirrorError(err)
	}
	k.kept.Commits, err = strconv.Atoi(strings.TrimSpace(out))
	return err
}

// export sets the ref in the checkout. The mirror already has the work, so a failure is only
// recorded.
func (k *keepRun) export(ctx context.Context) {
	if k.req.ExportTo == "" {
		return
	}
	repo, err := workspace.Describe(ctx, k.req.ExportTo)
	if err != nil {
		k.kept.Unexported = "the checkout is gone"
		return
	}
	// The checkout's disk may be full, or belong to another user.
	if err := k.mirror.export(ctx, repo, k.kept.Commit, k.req.Base, k.req.Ref); err != nil {
		k.kept.Unexported = agentbox.AsError(err).Message
	}
}
