package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Names of files in an attempt's directory. LeaseFile has the Lease; the others are as package task
// has them.
const (
	LeaseFile      = "lease.json"
	transcriptFile = "transcript.cast"
	savedFile      = "saved.json"
	acceptedFile   = "accepted.json" // the result, before the worker is told to forget it
)

// Sources has what tasks are made from (source.Store).
type Sources interface {
	Manifest(agentbox.Digest, io.Writer) error
	Export(ctx context.Context, d agentbox.Digest, lacking []agentbox.Digest, w io.Writer) error
}

// Owner offers attempts and takes their results. Its methods are safe for concurrent use. The fields
// are required.
type Owner struct {
	Sources Sources
	// Accept checks and completes what a worker says of an attempt, and keeps the commits of a pack,
	// which ends with pack. An error refuses the result.
	Accept func(ctx context.Context, t agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error)
	// Save takes a snapshot that a worker sends, whose pack ends with pack. An error of code Corrupt
	// means that it is none.
	Save func(ctx context.Context, t agentbox.Task, document []byte, pack io.Reader) (agentbox.SavedWork, error)
	// Continue makes a source of the last snapshot of an attempt, which stays until release is called.
	Continue func(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (ref *agentbox.SourceRef, release func(), err error)
	// Drop drops a snapshot that another one replaces.
	Drop func(ctx context.Context, a agentbox.Attempt)
	// Lend makes the loan (policy.Loan) for a task: its secrets, and what it must not reach. Value is the
	// present value of a secret of a task, for the one request that a worker makes of it.
	Lend  func(ctx context.Context, t agentbox.Task) (json.RawMessage, error)
	Value func(ctx context.Context, t agentbox.Task, secret string) (string, error)
	// Over tells whether an attempt has a result, or is none of this machine's, as its files have it. Before
	// Run is called for an attempt, and once the daemon ends, it is not over, and Run does not have it.
	Over func(t agentbox.TaskID, attempt int) bool
	// Name is the name of a member.
	Name func(identity.PeerID) string
	// Here tells whether gossip sees a member.
	Here func(identity.PeerID) bool
	// Call has a worker beat at once. It may fail, and must not block.
	Call func(worker identity.PeerID, t agentbox.TaskID, attempt int)
	// Changed is called when there are other offers. It must not block.
	Changed func()
	Log     *slog.Logger

	followed background.Topic // open has one more

	mu    sync.Mutex
	open  map[attemptKey]*offered
	shown Shown
	// leases is how many workers there were when offers were last looked at.
	leases int
	stale  map[Kind]bool // of which nobody gets what is shown
}

type attemptKey struct {
	task    agentbox.TaskID
	attempt int
}

// offered is an attempt that is not over. Owner.mu guards it, but for what does not change: task,
// attempt, dir, need, done.
type offered struct {
	task      agentbox.Task
	attempt   agentbox.Attempt
	dir       string
	need      resources.Share
	done      chan agentbox.Result // has room for the one result
	lease     Lease
	heard     Heard
	called    time.Time       // the worker, to beat at once
	finishing bool            // a result is being received, whose end decides
	cut       int             // results of the present lease that did not come as a whole
	busy      int             // snapshots that are being received or made a source, in which a worker is silent
	goesOn    agentbox.Digest // what the present lease goes on from; zero for the task's source
	release   func()          // of that source; nil for none
	cancelled bool
	finished  bool
	since     time.Time // it waits for a machine, or has one
	sent      bool      // the present lease has had its source
	avoid     []identity.PeerID
	unlent    error // why nothing could be lent when a machine last asked for it
}

// Run offers an attempt until it has a result, or is lost. When ctx ends, everything stays as it is
// for the next daemon.
func (o *Owner) Run(ctx context.Context, t agentbox.Task, a agentbox.Attempt, need resources.Share, dir string, cancelled <-chan struct{}) (agentbox.Result, error) {
	at := &offered{task: t, attempt: a, dir: dir, need: need, done: make(chan agentbox.Result, 1), heard: Heard{Last: time.Now()}, since: time.Now(), avoid: failedOn(t, a.Number, dir)}
	var accepted *agentbox.Result
	for file, to := range map[string]any{LeaseFile: &at.lease, savedFile: &at.attempt.Saved, acceptedFile: &accepted} {
		if err := durable.ReadJSON(filepath.Join(dir, file), to); err != nil {
			return agentbox.Result{}, err
		}
	}
	if accepted != nil {
		return *accepted, nil
	}
	key := attemptKey{t.ID, a.Number}
	o.mu.Lock()
	if o.open == nil {
		o.open = map[attemptKey]*offered{}
	}
	o.open[key] = at
	o.mu.Unlock()
	o.followed.Announce()
	o.Changed()
	defer func() {
		o.mu.Lock()
		delete(o.open, key)
		if at.release != nil {
			at.release()
		}
		o.mu.Unlock()
		o.Changed()
	}()
	tick := time.NewTicker(LeaseTime / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return agentbox.Result{}, ctx.Err()
		case r := <-at.done:
			return r, nil
		case <-cancelled:
			o.mu.Lock()
			at.cancelled, cancelled = true, nil
			o.mu.Unlock()
		case <-tick.C:
		}
		if r, over := o.check(at, time.Now()); over {
			return r, nil
		}
	}
}

// check ends a lease whose worker is silent, and tells whether the attempt is over without a result of
// a worker.
func (o *Owner) check(at *offered, now time.Time) (agentbox.Result, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.finished || at.finishing || at.busy > 0 {
		return agentbox.Result{}, false
	}
	if at.lease.Held() {
		o.see(at, now)
	}
	if at.lease.Held() && !at.lease.Kept() && at.heard.Expired(now) {
		o.Log.Warn("a machine that ran a task is silent", "task", at.task.ID, "worker", at.lease.Name)
		if r, over := o.lose(at); over {
			return r, true
		}
	}
	if at.cancelled && !at.lease.Held() {
		at.finished = true
		return agentbox.Result{State: agentbox.TaskCancelled}, true
	}
	return agentbox.Result{}, false
}

// lose ends the lease of a machine that does not go on, and tells whether it was the last one that the
// attempt gets. The caller holds o.mu.
func (o *Owner) lose(at *offered) (agentbox.Result, bool) {
	if !o.end(at, true) || at.cancelled {
		return agentbox.Result{}, false
	}
	at.finished = true
	return agentbox.Result{State: agentbox.TaskLost, Reason: "machines that ran it were lost " + strconv.Itoa(at.lease.Lost) + " times, the last one " + at.lease.Name}, true
}

// Lacks ends the lease of a machine that was called and has no such task: it was killed before it had written
// that down, or dropped it, and a keeper's lease has no other end. One that has said something since the call
// was just taking it.
func (o *Owner) Lacks(worker identity.PeerID, t agentbox.TaskID, attempt int) {
	at := o.find(question{Task: t, Attempt: attempt})
	o.mu.Lock()
	defer o.mu.Unlock()
	if at == nil || at.finished || at.finishing || at.busy > 0 || at.lease.Worker != worker || !at.heard.Last.Before(at.called) {
		return
	}
	o.Log.Warn("a machine that had a task does not have it", "task", t, "worker", at.lease.Name)
	if r, over := o.lose(at); over {
		at.done <- r
	}
}

// see notes whether the worker of an attempt is there, and calls it if it is late or has to end. A keeper may
// be away, and is not late then. The caller holds o.mu.
func (o *Owner) see(at *offered, now time.Time) {
	here := o.Here(at.lease.Worker)
	at.heard.See(here, now)
	late := at.heard.Late(now) && (here || !at.lease.Kept())
	if (at.cancelled || late) && now.Sub(at.called) > callEvery {
		at.called = now
		o.Call(at.lease.Worker, at.task.ID, at.attempt.Number)
	}
}

// end ends a lease. The caller holds o.mu.
func (o *Owner) end(at *offered, silent bool) (over bool) {
	at.lease, over = at.lease.End(silent)
	at.since = time.Now()
	if err := durable.WriteJSON(filepath.Join(at.dir, LeaseFile), at.lease, 0o600); err != nil {
		o.Log.Error("cannot record that a lease ended", "task", at.task.ID, "error", err)
	}
	go o.Changed()
	return over
}

// failedOn are the workers of earlier attempts that failed. dir is the directory of attempt n.
func failedOn(t agentbox.Task, n int, dir string) (all []identity.PeerID) {
	for _, a := range t.Attempts {
		var l Lease
		if a.Number < n && a.Result != nil && a.Result.State == agentbox.TaskFailed && durable.ReadJSON(filepath.Join(filepath.Dir(dir), strconv.Itoa(a.Number), LeaseFile), &l) == nil && l.Held() {
			all = append(all, l.Worker)
		}
	}
	return all[:min(len(all), agentbox.MaxFailedOn)]
}

// Waiting says since when an attempt waits for a machine, what it needs, and why the one that asked for
// it did not get it; ok is false if it does not wait.
func (o *Owner) Waiting(t agentbox.TaskID, attempt int) (since time.Time, need resources.Share, why error, ok bool) {
	at := o.find(question{Task: t, Attempt: attempt})
	o.mu.Lock()
	defer o.mu.Unlock()
	if at == nil || at.lease.Held() || at.finished {
		return since, need, nil, false
	}
	return at.since, at.need, at.unlent, true
}

// answerTimeout bounds a question with all that follows it.
const answerTimeout = 10 * time.Minute

// Serve answers a worker (wire.Handler).
func (o *Owner) Serve(ctx context.Context, c *wire.Conn) {
	c.EachStream(ctx, answerTimeout, func(_ context.Context, s *wire.Stream) error { return o.answer(ctx, c.Peer(), s) }, func(err error) {
		o.Log.Info("a question about a task was not answered", "peer", c.Peer().Short(), "error", err)
	})
}

// stream is a stream of the mesh.
type stream interface {
	io.ReadWriter
	Close() error
}

// answer answers one question.
func (o *Owner) answer(ctx context.Context, peer identity.PeerID, s stream) error {
	var q question
	if err := wire.ReadMessage(s, &q, maxMessage); err != nil {
		return err
	}
	reply, err := o.reply(ctx, peer, q, s)
	if err != nil {
		return err
	}
	if err := wire.WriteMessage(s, reply); err != nil {
		return err
	}
	if reply.Stop == "" && (q.Do == askManifest || q.Do == askExport) {
		err = o.send(ctx, q, s)
	}
	return errors.Join(err, s.Close())
}

// send sends what follows an answer: a part of the source.
func (o *Owner) send(ctx context.Context, q question, s stream) error {
	at := o.find(q)
	if at == nil || at.task.Source == nil {
		return nil
	}
	digest := at.task.Source.Digest
	o.mu.Lock()
	if !q.Source.IsZero() && q.Source == at.goesOn {
		digest = q.Source
	}
	o.mu.Unlock()
	switch q.Do {
	case askManifest:
		return o.Sources.Manifest(digest, s)
	case askExport:
		lacking, err := api.ParseDigests(s)
		if err != nil {
			return err
		}
		if err := o.Sources.Export(ctx, digest, lacking, s); err != nil {
			return err
		}
		o.mu.Lock()
		at.sent = true
		o.mu.Unlock()
		o.Changed()
	}
	return nil
}

func (o *Owner) find(q question) *offered {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[attemptKey{q.Task, q.Attempt}]
}

// reply decides what to say. Only a claim is answered to who has no lease.
func (o *Owner) reply(ctx context.Context, peer identity.PeerID, q question, s io.Reader) (answer, error) {
	at := o.find(q)
	if q.Do == askClaim {
		if a, err := o.claim(ctx, peer, q); err != nil || a.Stop == "" {
			return a, err
		}
	}
	if at == nil && !o.Over(q.Task, q.Attempt) {
		return answer{}, agentbox.Errorf(agentbox.Unavailable, "task %s is not followed now", q.Task)
	}
	if at == nil || q.Do == askClaim {
		return answer{Stop: stopStale}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !at.lease.Holds(peer, q.Fence) || at.finished {
		return answer{Stop: stopStale}, nil
	}
	at.heard.Last = time.Now()
	switch q.Do {
	case askReturn:
		if at.lease.Kept() { // it does not want to keep it
			at.lease = at.lease.Transfer(identity.PeerID{})
		}
		o.end(at, false)
		return answer{Stop: stopStale}, nil
	case askBeat:
		size := keepChunk(filepath.Join(at.dir, transcriptFile), q.Offset, q.Chunk)
		if at.cancelled {
			return answer{Stop: stopCancelled}, nil
		}
		at.heard.Next = BeatEvery(o.leases)
		return answer{Offset: size, Next: int(at.heard.Next / time.Second)}, nil
	case askFinish:
		return o.finish(ctx, at, q, s)
	case askSave:
		return o.save(ctx, at, peer, q, s)
	case askSecret:
		return o.lend(ctx, at, q.Secret), nil
	case askManifest, askExport:
		return answer{}, nil // send follows
	}
	return answer{}, agentbox.Errorf(agentbox.Invalid, "a question about a task that this build does not know: %.40q", q.Do)
}

// claim gives a peer the attempt that it asks for, or one like it. Of those who ask at once, each gets
// another one.
func (o *Owner) claim(ctx context.Context, peer identity.PeerID, q question) (answer, error) {
	for at := o.instead(q); at != nil; at = o.instead(q) {
		a, err := o.grant(ctx, at, peer)
		if err != nil || a.Stop == "" || o.isWaiting(at) {
			return a, err
		}
	}
	return answer{Stop: stopStale}, nil
}

func (o *Owner) isWaiting(at *offered) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return at.waits()
}

// lend answers for a secret that the task was granted. It is called with o.mu held, which it gives up
// meanwhile.
func (o *Owner) lend(ctx context.Context, at *offered, name string) answer {
	if at.cancelled || !slices.Contains(at.task.Secrets, name) {
		o.Log.Warn("a worker asks for a secret that its task was not granted", "task", at.task.ID, "worker", at.lease.Name)
		return answer{Error: "the task was not granted this secret"}
	}
	worker := at.lease.Name
	o.mu.Unlock()
	value, err := o.Value(ctx, at.task, name)
	o.mu.Lock()
	if err != nil {
		o.Log.Warn("a secret that is lent has no value", "task", at.task.ID, "secret", name, "error", err)
		return answer{Error: "it has no value there now"} // why is this machine's own
	}
	o.Log.Info("a secret is lent for a request", "task", at.task.ID, "secret", name, "worker", worker)
	return answer{Value: value}
}

// grant gives an attempt to a peer that asks for it. The lease is on disk before it is given.
func (o *Owner) grant(ctx context.Context, at *offered, peer identity.PeerID) (answer, error) {
	loan, unlent := o.Lend(ctx, at.task)
	o.mu.Lock()
	defer o.mu.Unlock()
	// Whether a machine has a label is its own word.
	wanted := strings.HasPrefix(at.task.Where, Label) || wants(at.task.Where, peer, nil) || peer == at.lease.Keeper
	next, err := at.lease.Grant(peer, o.Name(peer))
	if err != nil || !wanted || at.cancelled || at.finished {
		return answer{Stop: stopStale}, nil
	}
	if at.unlent = unlent; unlent != nil {
		o.Log.Warn("a task is not given to a machine, as what it needs cannot be lent", "task", at.task.ID, "error", unlent)
		return answer{Stop: stopStale}, nil
	}
	if err := durable.WriteJSON(filepath.Join(at.dir, LeaseFile), next, 0o600); err != nil {
		return answer{}, err
	}
	_ = os.Remove(filepath.Join(at.dir, transcriptFile)) // what the last worker sent
	at.lease, at.heard, at.called, at.sent, at.cut = next, Heard{Last: time.Now()}, time.Time{}, false, 0
	go o.Changed()
	spec := forWorker(at.task.TaskSpec)
	if at.lease.Kept() {
		keepFor(at.task, peer, &spec)
	}
	spec.Continue = o.goOn(ctx, at)
	return answer{Task: at.task.ID, Attempt: at.attempt.Number, Fence: next.Fence, Spec: &spec, Loan: loan}, nil
}

// goOn makes what the present lease goes on from: the last snapshot; nil if it begins anew. It is
// called with o.mu held, which it gives up meanwhile.
func (o *Owner) goOn(ctx context.Context, at *offered) *agentbox.SourceRef {
	if at.release != nil {
		at.release()
	}
	a := at.attempt
	if at.goesOn, at.release = (agentbox.Digest{}), nil; a.Saved == nil {
		if from := at.task.Continue; from != nil { // of an attempt that is kept here
			at.goesOn = from.Digest
			return &agentbox.SourceRef{Digest: from.Digest, Subdir: from.Subdir}
		}
		return nil
	}
	at.busy++
	o.mu.Unlock()
	ref, release, err := o.Continue(ctx, at.task, a)
	o.mu.Lock()
	at.busy--
	at.heard.Last = time.Now()
	if now := at.attempt; err != nil && *now.Saved != *a.Saved { // replaced meanwhile, and gone
		return o.goOn(ctx, at)
	}
	if err != nil || ref == nil {
		o.Log.Warn("a task begins anew, as its snapshot cannot be read", "task", at.task.ID, "error", err)
		return nil
	}
	at.goesOn, at.release = ref.Digest, release
	return &agentbox.SourceRef{Digest: ref.Digest, Subdir: ref.Subdir}
}

// save receives a snapshot. It is called with o.mu held, which it gives up while bytes come. A worker
// that has lost its lease meanwhile changes nothing.
func (o *Owner) save(ctx context.Context, at *offered, peer identity.PeerID, q question, s io.Reader) (answer, error) {
	if at.busy > 0 || at.finishing {
		return answer{Stop: stopRefused}, nil
	}
	at.busy++
	o.mu.Unlock()
	saved, err := o.Save(ctx, at.task, q.Document, s)
	o.mu.Lock()
	at.busy--
	at.heard.Last = time.Now()
	if err != nil {
		o.Log.Warn("the snapshot of a task is refused", "task", at.task.ID, "worker", at.lease.Name, "error", err)
		return answer{Stop: stopRefused}, nil
	}
	if !at.lease.Holds(peer, q.Fence) || at.finished {
		last := at.attempt
		last.Saved = &saved
		go o.Drop(context.WithoutCancel(ctx), last)
		return answer{Stop: stopStale}, nil
	}
	return answer{}, o.setSaved(ctx, at, saved)
}

// setSaved records a snapshot and drops the last one. The caller holds o.mu.
func (o *Owner) setSaved(ctx context.Context, at *offered, saved agentbox.SavedWork) error {
	if err := durable.WriteJSON(filepath.Join(at.dir, savedFile), saved, 0o600); err != nil {
		return err
	}
	last := at.attempt
	at.attempt.Saved = &saved
	if last.Saved != nil {
		go o.Drop(context.WithoutCancel(ctx), last)
	}
	return nil
}

// Saved records a snapshot that this machine asked for. The error is NotFound if the attempt is over.
func (o *Owner) Saved(ctx context.Context, t agentbox.TaskID, attempt int, saved agentbox.SavedWork) error {
	at := o.find(question{Task: t, Attempt: attempt})
	if at == nil {
		return agentbox.Errorf(agentbox.NotFound, "task %s has ended", t)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.setSaved(ctx, at, saved)
}

// forWorker is what a worker needs of a task: no directory of this machine, and none of its
// environment but what was given to the command.
func forWorker(spec agentbox.TaskSpec) agentbox.TaskSpec {
	return agentbox.TaskSpec{
		Source: &agentbox.SourceRef{Digest: spec.Source.Digest, Subdir: spec.Source.Subdir}, Command: spec.Command, Agent: spec.Agent, AgentHosts: spec.AgentHosts,
		Dir: spec.Dir, User: spec.User, Env: spec.Env, TTY: spec.TTY, CPUs: spec.CPUs, Memory: spec.Memory, Isolation: spec.Isolation,
		Limits: agentbox.TaskLimits{Wall: spec.Limits.Wall, Idle: spec.Limits.Idle, CPU: spec.Limits.CPU, Tokens: spec.Limits.Tokens},
	}
}
