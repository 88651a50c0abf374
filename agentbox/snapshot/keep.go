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

// Request says what of a box to keep, and where. Mirror, Ref and, unless the box began with no
// commit, Base are needed.
type Request struct {
	Mirror        string        // the project's mirror (home.Mirror); it is made when it is not there
	Ref           string        // in it: TaskRef or BoxRef
	Base          string        // the commit that the workspace began with; "" when there was none
	Begin         string        // the directory that Begin made for the box; "" or one that is not there: all was committed
	Checkout      string        // where the box came from; "" or one that is gone is no error
	SkipUntouched bool          // a box in which nothing was done, as git says at once, is not looked at closely: there is no ref then, and Kept.Nothing
	Export        bool          // the checkout gets the ref, too
	Dir           string        // of the workspace in the box; "" is /workspace
	Limit         int64         // bytes that may come from the box; 0 is DefaultLimit
	Timeout       time.Duration // for all of it; 0 is DefaultTimeout
}

// What a Request says when it says nothing.
const (
	DefaultDir     = "/workspace"
	DefaultLimit   = 4 << 30
	DefaultTimeout = 10 * time.Minute
)

// Kept is what was kept. Commits named in it are in the
// mirror, and full hex.
type Kept struct {
	Ref     string
	Commit  string   // the box's work; Head when nothing was uncommitted
	Whole   string   // the same with what was uncommitted when the box began, as far as it is there still
	Begin   string   // Base with what was uncommitted when the box began; "" when nothing was
	Same    bool     // nothing has changed since Begin, but for what is committed
	Mixed   bool     // Commit has what was uncommitted too: it cannot be told apart
	Head    string   // what was checked out; "" before the first commit
	Base    string   // as requested
	Commits int      // of Head that Base does not lead to
	Files   int      // that were not committed, or not as they were
	Also    []Branch // branches and stashes that Commit does not lead to, in the mirror
	Missing []string // what could not be kept and why, a line each
	Lost    bool     // Missing has more than what nested repositories hold
	// Unexported is why the checkout has no Ref, where it was to have one: the mirror has it, so
	// nothing is missing.
	Unexported string
	Mirror     string // where it was kept
}

// Keep makes a ref in the project's mirror of everything that was done in a box: see the package.
// It changes nothing in the box, and says in Kept.Missing what it had to leave. When git in the box
// is missing or its repository damaged, all files that its ignore rules do not exclude are kept on
// top of Base. An error means that nothing was kept. It may be called again, and for several boxes
// of one project at once. Errors: NoSpace where the box sends more than Limit, Unavailable after
// Timeout or where the box does not answer, Conflict where what it says is not to be believed and
// its files cannot be had either.
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

// keepRun is one run of Keep. It is used by one goroutine, and once.
type keepRun struct {
	req    Request
	guest  Guest
	repo   *workspace.Repo // the checkout; nil when there is none any more
	mirror mirror
	kept   Kept
}

// keep goes through the steps in an order in which each ref that is set is of objects that are
// there. A failure before the ref of the work leaves objects and refs of the mirror that nobody
// asks for, and the next run finds them.
func (k *keepRun) keep(ctx context.Context) error {
	if k.req.SkipUntouched && k.untouched(ctx) {
		k.kept.Commit, k.kept.Whole, k.kept.Head = k.req.Base, k.req.Base, k.req.Base
		return nil
	}
	if err := k.prepare(ctx); err != nil {
		return err
	}
	f, err := k.look(ctx)
	if err != nil {
		return err
	}
	if err := k.dropKnown(ctx, &f); err != nil {
		return err
	}
	if err := k.apart(ctx, &f); err != nil {
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

// look takes what the box holds into the mirror: as its git has it, else its files.
func (k *keepRun) look(ctx context.Context) (facts, error) {
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

// setRefs gives the work its refs in the mirror, all objects of which are there.
func (k *keepRun) setRefs(ctx context.Context, f facts) error {
	refs, name := map[string]string{k.req.Ref: f.top}, strings.TrimPrefix(k.req.Ref, namespace)
	// Otherwise the work's own ref keeps it.
	if k.kept.Whole != k.kept.Commit {
		refs[wholesRef+name] = k.kept.Whole
	}
	for i, b := range f.also {
		b.Ref = branchesRef + name + "/" + strconv.Itoa(i+1)
		refs[b.Ref] = b.Commit
		k.kept.Also = append(k.kept.Also, b)
	}
	return k.mirror.setRefs(ctx, refs)
}

// prepare opens the mirror, and sees to it that what the box began with is there.
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

// seedBase takes the base from the checkout into the mirror, so that the box sends only what is
// new. It is an economy: that it fails is no error.
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
	} // without it the box sends everything
	return nil
}

// errFormat is a repository whose objects have other names than those of the mirror.
var errFormat = errors.New("its objects have another format than the checkout's")

// fetch has the box say what it holds, and takes its objects. The box's script writes facts and
// then the pack to one stream, so that it is one command.
func (k *keepRun) fetch(ctx context.Context) (facts, error) {
	// Every commit that the host has saves the box from sending its history.
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
		cmd.Stdout, cmd.Stderr = w, &bounded.Head{W: &complaints, Left: maxFact}
		status, err := k.guest.Exec(ctx, cmd)
		if err == nil && status.Code != 0 {
			why, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n")
			err = lies(fmt.Errorf("git ended with exit code %d: %s", status.Code, agentbox.Printable(why)))
		}
		return err
	}, func(ctx context.Context, r io.Reader) error {
		in := bufio.NewReader(r)
		var err error
		if f, err = readFacts(in); err != nil {
			return lies(err)
		}
		if f.failed != "" {
			return nil
		}
		if err = k.accept(ctx, in, &f); err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(in, 1)) // git has read all of the pack
		}
		return err
	})
	return f, k.judge(ctx, &f, err)
}

// accept takes the pack. The box cannot have begun with a commit whose name has another length, and
// what it names must be commits: the mirror's refs and the counts below depend on it.
func (k *keepRun) accept(ctx context.Context, pack io.Reader, f *facts) error {
	if k.req.Base != "" && len(f.top) != len(k.req.Base) {
		return lies(errFormat)
	}
	tips := []string{f.top}
	for _, b := range f.also {
		tips = append(tips, b.Commit)
	}
	if err := k.mirror.take(ctx, pack, k.req.Limit, tips); err != nil {
		return err
	}
	if f.head != "" {
		tips = append(tips, f.head)
	}
	have, err := k.mirror.has(ctx, tips...)
	if i := slices.IndexFunc(tips, func(id string) bool { return !have[id] }); err == nil && i >= 0 {
		err = lies(fmt.Errorf("%.12s is not a commit", tips[i]))
	}
	return err
}

// judge decides what a failure means: a repository that does not hold together leaves the files,
// everything else is the end. Corrupt is a pack that git refuses, Conflict an answer that cannot be
// understood; a box that cannot be reached, or sends too much, is no case for its files.
func (k *keepRun) judge(ctx context.Context, f *facts, err error) error {
	code := agentbox.CodeOf(err)
	if err == nil || ctx.Err() != nil || code != agentbox.Corrupt && code != agentbox.Conflict {
		return err
	}
	f.failed = agentbox.AsError(err).Message
	return nil
}

// count says how many commits were made. Where the base is not there, all count.
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
		return unwritable(err)
	}
	k.kept.Commits, err = strconv.Atoi(strings.TrimSpace(out))
	return err
}

// export gives the checkout its ref. The mirror has the work already, so a failure is only told.
func (k *keepRun) export(ctx context.Context) {
	if !k.req.Export {
		return
	}
	if k.repo == nil {
		k.kept.Unexported = "the checkout is gone"
		return
	}
	// A checkout may be on a disk that is full, or be another user's.
	if err := k.mirror.export(ctx, *k.repo, k.kept.Commit, k.req.Base, k.req.Ref); err != nil {
		k.kept.Unexported = agentbox.AsError(err).Message
	}
}
