package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// Request says what to keep of a box, and where. Mirror and Ref are required, and so is Base
// unless the box began without a commit.
type Request struct {
	Mirror        string        // the project's mirror (home.Mirror); created if missing
	Ref           string        // the ref to set in it: TaskRef or BoxRef
	Base          string        // the commit that the workspace began with; "" for none
	Baseline      string        // the directory that RecordBaseline wrote for the box; if "" or absent, everything was committed
	Checkout      string        // the checkout the box came from; may be "" or gone
	SkipUntouched bool          // return early, with no ref and Kept.Nothing true, if a quick look at git finds the box unchanged
	Export        bool          // set the ref in the checkout, too
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
	Head      string   // what was checked out; "" before the first commit
	Base      string   // as requested
	Commits   int      // commits in Head that Base does not contain
	Files     int      // files that were uncommitted or changed
	OtherRefs []Branch // branches and stashes in the mirror that Commit does not contain
	Missing   []string // what could not be kept and why, one line each
	Lost      bool     // Missing lists more than the contents of nested repositories
	// Unexported says why the checkout did not get Ref although it was requested. The mirror has
	// the ref, so nothing is lost.
	Unexported string
	Mirror     string // where it was kept
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
	req.Dir, req.Limit, req.Timeout = cmp.Or(req.Dir, DefaultDir), cmp.Or(req.Limit, DefaultLimit), cmp.Or(req.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, req.Timeout, agentbox.Errorf(agentbox.Unavailable, "the work in the box could not be kept within %s", req.Timeout))
	defer cancel()
	k := &keepRun{req: req, guest: g, kept: Kept{Ref: req.Ref, Base: req.Base}}
	if err := k.keep(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Kept{}, err
	}
	return k.kept, nil
}

// keepRun is one run of Keep, used once and by one goroutine.
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
	if err := k.dropKnown(ctx, &f); err != nil {
		return err
	}
	if err := k.separateWork(ctx, &f); err != nil {
		return err
	}
	k.kept.Commit, k.kept.Head, k.kept.Files, k.kept.Mirror = f.top, f.head, f.files, k.mirror.dir
	if err := k.setRefs(ctx, f); err != nil {
		return err
	}
	if err := k.count(ctx); err != nil {
		return err
	}
	k.export(ctx)
	return nil
}

// fetchWork brings the box's work into the mirror: through its git if possible, else as files.
func (k *keepRun) fetchWork(ctx context.Context) (facts, error) {
	f, err := k.fetch(ctx)
	if err != nil {
		return f, err
	}
	k.kept.Missing, k.kept.Lost = append(k.kept.Missing, f.missing...), len(f.missing) > 0 || f.failed != ""
	for _, path := range f.nested {
		k.kept.Missing = append(k.kept.Missing, path+" is a repository of its own: of it, only which commit is checked out is kept")
	}
	if f.failed == "" {
		return f, nil
	}
	k.kept.Missing = append(k.kept.Missing, "commits that were made in the box: "+f.failed)
	return k.files(ctx)
}

// setRefs sets the refs of the work in the mirror, which has all their objects.
func (k *keepRun) setRefs(ctx context.Context, f facts) error {
	refs, name := map[string]string{k.req.Ref: f.top}, strings.TrimPrefix(k.req.Ref, namespace)
	// If they are equal, the work's own ref is enough.
	if k.kept.Whole != k.kept.Commit {
		refs[wholesRef+name] = k.kept.Whole
	}
	for i, b := range f.also {
		b.Ref = branchesRef + name + "/" + strconv.Itoa(i+1)
		refs[b.Ref] = b.Commit
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

// seedBase copies the base from the checkout to the mirror, so that the box sends only new
// objects. This is an optimisation, so its failure is not an error.
func (k *keepRun) seedBase(ctx context.Context) error {
	if k.req.Base == "" {
		return nil
	}
	have, err := k.mirror.has(ctx, k.req.Base)
	if err != nil || have[k.req.Base] || k.repo == nil {
		return err
	}
	if err := k.mirror.seed(ctx, *k.repo, k.req.Base); err != nil && ctx.Err() != nil {
		return err
	} // without the base, the box sends everything
	return nil
}

// errFormat reports objects whose names have another length than the mirror's.
var errFormat = errors.New("its objects have another format than the checkout's")

// fetch asks the box for its facts and takes its objects. One script in the box writes both to
// one stream, facts first, so that it takes a single command.
func (k *keepRun) fetch(ctx context.Context) (facts, error) {
	// Each commit that the host has spares the box from sending its history.
	have, err := k.mirror.tips(ctx)
	if err != nil {
		return facts{}, err
	}
	if has, err := k.mirror.has(ctx, k.req.Base); err == nil && has[k.req.Base] {
		have = append(have, k.req.Base)
	}
	cmd := environment.Command{Argv: []string{"sh", "-c", capture}, Dir: k.req.Dir,
		Env: map[string]string{"HAVE": strings.Join(have, " "), "ID": path.Base(k.req.Ref), "LARGE": strconv.Itoa(maxLarge >> 10), "MOST": strconv.Itoa(maxAlso)}}
	var f facts
	var complaints bytes.Buffer
	err = background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		cmd.Stdout, cmd.Stderr = w, &bounded.Head{W: &complaints, Remaining: maxFact}
		status, err := k.guest.Exec(ctx, cmd)
		if err == nil && status.Code != 0 {
			why, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n")
			err = invalidAnswerError(fmt.Errorf("git ended with exit code %d: %s", status.Code, agentbox.Printable(why)))
		}
		return err
	}, func(ctx context.Context, r io.Reader) error {
		in := bufio.NewReader(r)
		var err error
		if f, err = readFacts(in); err != nil {
			return invalidAnswerError(err)
		}
		if f.failed != "" {
			return nil
		}
		if err = k.accept(ctx, in, &f); err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(in, 1)) // git has read the whole pack
		}
		return err
	})
	return f, k.classify(ctx, &f, err)
}

// accept takes the pack and verifies that the ids the box named are commits: the mirror's refs
// and the counts depend on it. An id of another length than the base's is invalid.
func (k *keepRun) accept(ctx context.Context, pack io.Reader, f *facts) error {
	if k.req.Base != "" && len(f.top) != len(k.req.Base) {
		return invalidAnswerError(errFormat)
	}
	tips := []string{f.top}
	for _, b := range f.also {
		tips = append(tips, b.Commit)
	}
	if err := k.mirror.receivePack(ctx, pack, k.req.Limit, tips); err != nil {
		return err
	}
	if f.head != "" {
		tips = append(tips, f.head)
	}
	have, err := k.mirror.has(ctx, tips...)
	if i := slices.IndexFunc(tips, func(id string) bool { return !have[id] }); err == nil && i >= 0 {
		err = invalidAnswerError(fmt.Errorf("%.12s is not a commit", tips[i]))
	}
	return err
}

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

// count sets the number of commits made in the box. Without the base in the mirror, all commits
// count.
func (k *keepRun) count(ctx context.Context) error {
	if k.kept.Head == "" {
		return nil
	}
	args := []string{"rev-list", "--count", k.kept.Head}
	if has, err := k.mirror.has(ctx, k.req.Base); err == nil && has[k.req.Base] {
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
	if !k.req.Export {
		return
	}
	if k.repo == nil {
		k.kept.Unexported = "the checkout is gone"
		return
	}
	// The checkout's disk may be full, or belong to another user.
	if err := k.mirror.export(ctx, *k.repo, k.kept.Commit, k.req.Base, k.req.Ref); err != nil {
		k.kept.Unexported = agentbox.AsError(err).Message
	}
}
