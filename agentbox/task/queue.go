package task

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/artifact"
	"agentbox/agentbox/background"
)

// Boxes is what tasks need of boxes. It is safe for concurrent use. The error for a box that does
// not exist is NotFound.
type Boxes interface {
	Up(context.Context, api.UpRequest, agentbox.Progress) (api.UpResponse, error)
	Find(context.Context, api.BoxRef) (agentbox.Box, error)
	List(context.Context, api.ListRequest, agentbox.Progress) ([]agentbox.Box, error)
	LiftLimits(context.Context, api.BoxRef) error // lifts its limits, so that its work can be looked at
	Stop(context.Context, api.BoxRef) error       // ends its machine; the workspace stays
	Remove(context.Context, api.BoxRef, agentbox.Progress) (agentbox.Box, error)
}

// Jobs is what tasks need of jobs. Start does nothing for an ID that was started already.
type Jobs interface {
	Start(context.Context, api.JobStart) (api.JobStarted, error)
	Show(ctx context.Context, box string, id agentbox.JobID) (JobFiles, error) // NotFound: the job, or its box, is not there
	Signal(context.Context, api.JobSignal) error
	// AwaitEnd returns when a job of a running box has ended, or its supervisor cannot tell.
	AwaitEnd(ctx context.Context, box string, id agentbox.JobID) error
}

// JobFiles is a job and the directory of its record and transcript; see package job.
type JobFiles struct {
	Job agentbox.Job
	Dir string
}

// Snapshotter keeps the work of a task's box where it outlives the box. An error means that the box
// may have work that is nowhere else. Keep may be called again after an error.
type Snapshotter interface {
	Keep(ctx context.Context, box agentbox.Box, task agentbox.Task) (Kept, error)
}

// Collector copies the artifacts of a task's box into dir, the directory of its attempt. The box's
// work has been kept. A second call for the same attempt replaces what the first one wrote.
type Collector interface {
	Collect(ctx context.Context, box agentbox.Box, task agentbox.Task, work Kept, dir string) (artifact.Collected, error)
}

// Checker runs a task's checks over its work, which has been kept. Load makes that fast; it is called
// before the work is kept, and does not wait.
type Checker interface {
	Load(task agentbox.Task)
	Check(ctx context.Context, task agentbox.Task, work Kept) []agentbox.CheckResult
}

// EvidenceSource reports how the box of an attempt went, and keeps the logs of its services in dir,
// the attempt's directory. With an error it still reports what it knows. It is asked while the
// machine exists, or has just gone.
type EvidenceSource interface {
	Gather(ctx context.Context, box agentbox.Box, dir string) (Evidence, error)
}

// Evidence is what an EvidenceSource reports; see agentbox.Result.
type Evidence struct {
	Used     *agentbox.Consumption
	Cost     *agentbox.Cost
	Denied   []agentbox.Denial
	Pressure []agentbox.Pressure
	Services []string
}

// Kept is what a Snapshotter has kept.
type Kept struct {
	Ref     string                // of git, in the project's mirror and in the checkout
	Commit  string                // that Ref names
	Commits int                   // that were made in the box
	Files   int                   // that changed, and were not committed
	Changes []agentbox.FileChange // since the box began, committed or not; the first of them
	Nothing bool                  // the box has only what it began with
	Missing []string              // what could not be kept, and why
	Notes   []string              // what was kept in another form
	Others  []agentbox.OtherWork  // what was kept beside Commit

	Base       string // the commit that the task began with, if that is not the box's
	Unexported string // why Ref is in the mirror only; the box is not needed for that
	Unlisted   string // why Changes are not known
}

// Saver takes snapshots of boxes while their tasks run.
type Saver interface {
	// Save takes one of a running box, whose command goes on. The one that last was is dropped.
	Save(ctx context.Context, box agentbox.Box, t agentbox.Task) (agentbox.SavedWork, error)
	// Continue makes a source of what an attempt left, or of its last snapshot; nil if there is neither.
	// It stays until release is called.
	Continue(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (ref *agentbox.SourceRef, release func(), err error)
	// Adopt gives the result of an attempt that left no work its last snapshot's.
	Adopt(ctx context.Context, t agentbox.Task, a agentbox.Attempt, result *agentbox.Result) error
	// Drop drops the snapshot of an attempt whose work is kept.
	Drop(ctx context.Context, a agentbox.Attempt)
}

// Remote has an attempt carried out by another machine. Run returns its result, or ctx's error; after
// a restart it is called again for the same attempt. dir is the attempt's directory.
type Remote interface {
	// Room is how many more attempts like that of a task may wait there, when so many are to be run there
	// already.
	Room(t agentbox.Task, need Need, begun int) int
	Run(ctx context.Context, t agentbox.Task, a agentbox.Attempt, need Need, dir string, cancelled <-chan struct{}) (agentbox.Result, error)
}

// Config is what a Queue needs. Collector, Evidence, Checker and Saver may be nil.
type Config struct {
	Store       Store
	Boxes       Boxes
	Jobs        Jobs
	Snapshotter Snapshotter

	Collector Collector      // nil: there are no artifacts
	Evidence  EvidenceSource // nil: there is no evidence
	Checker   Checker        // nil: nothing is checked
	Saver     Saver          // nil: no snapshots are taken
	SaveEvery time.Duration

	// HasRoom tells whether there is room for one more box beside those of running tasks. It is
	// called with the queue's lock held, and must not call the queue.
	HasRoom func(running []Need, next Need) bool
	// Remote runs attempts elsewhere; nil: there are none.
	Remote Remote
	// Changed is called when a task has begun or ended; it must not block. nil: nobody looks.
	Changed func()
	// Ended is called when an attempt has a result; it must not block. nil: nobody wants to know.
	Ended func(id agentbox.TaskID, attempt int)
	// CostSoFar returns what a task has cost, a running attempt included. It may be nil.
	CostSoFar func(context.Context, agentbox.Task) []agentbox.Cost
	Log       *slog.Logger
}

// Queue begins tasks when there is room and follows them to their end. Its methods are safe for
// concurrent use; Run is called once. Every running task has a goroutine, which ends with the task
// or with the queue's context; Run waits for all of them.
type Queue struct {
	Config
	ctx  context.Context
	wake background.Signal
	work background.Group // the tasks that are followed; closed by Run

	// mu guards running, elsewhere, listed, watches and changed. done and spent belong to the goroutine of
	// Run.
	mu        sync.Mutex
	running   map[agentbox.TaskID]record
	elsewhere int                      // of them: those that other machines run
	done      map[agentbox.TaskID]bool // tasks that look need not read again
	spent     batchCosts
	listed    []*agentbox.Task // tasks that were not done at the last look
	watches   map[agentbox.TaskID]*watch
	changed   chan struct{} // closed and replaced when readOver may answer otherwise
}

// NewQueue makes a queue, which runs until ctx ends.
func NewQueue(ctx context.Context, c Config) *Queue {
	return &Queue{Config: c, ctx: ctx, wake: background.NewSignal(),
		running: map[agentbox.TaskID]record{}, done: map[agentbox.TaskID]bool{}, spent: batchCosts{}, watches: map[agentbox.TaskID]*watch{}, changed: make(chan struct{})}
}

// scanEvery is how often the queue checks for room while a task waits for it: boxes that are not
// tasks' make room, too, and notify nobody.
const scanEvery = 2 * time.Second

// Run begins and follows tasks until the queue's context ends. Tasks that run then go on: the next
// queue finds them. First it removes what the previous daemon left behind.
func (q *Queue) Run() {
	q.sweep(q.ctx)
	if err := q.Store.sweep(); err != nil {
		q.Log.Error("cannot remove what is left of removed tasks", "error", err)
	}
	for q.ctx.Err() == nil {
		var again <-chan time.Time
		if q.scan() {
			again = time.After(scanEvery)
		}
		select {
		case <-q.ctx.Done():
		case <-q.wake:
		case <-again:
		}
	}
	q.work.Close()
}

// scan resumes following what runs already, so that it is counted before room is judged, and then
// begins what there is room for, the oldest first. It tells whether to scan again unnotified.
func (q *Queue) scan() (again bool) {
	open, bad := q.Store.unfinished(q.done, q.spent.add)
	for _, err := range bad {
		q.Log.Error("cannot read a task", "error", err)
	}
	q.mu.Lock()
	q.listed = open
	q.mu.Unlock()
	for _, t := range open {
		q.cancelAbandoned(t)
		again = again || t.State == agentbox.TaskQueued || t.Limits.BatchCost > 0
	}
	q.limitBatches(q.ctx, open)
	free := map[place]int{}
	for _, running := range []bool{true, false} {
		for _, t := range open {
			if (t.State == agentbox.TaskRunning) == running && (running || !q.waits(t)) {
				q.begin(t, free)
			}
		}
	}
	return again
}

// place is what tasks alike wait for.
type place struct {
	where, project string
	need           Need
}

// announce tells those who wait for tasks to look again.
func (q *Queue) announce() {
	q.look()
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *Queue) look() {
	if q.Changed != nil {
		q.Changed()
	}
}

// removalEvery is how often a box that is being removed is looked for. It cannot be found before its
// files are gone, and nobody announces that.
const removalEvery = 10 * time.Millisecond

// changes returns what to wait for before readOver may answer otherwise; removal may be nil.
func (q *Queue) changes(w *watch) (changed <-chan struct{}, removal <-chan time.Time) {
	if w.removing() != "" {
		removal = time.After(removalEvery)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed, removal
}

// Open lists the tasks that were not done at the last look, a few seconds ago at most. They are shared and
// must not be changed.
func (q *Queue) Open() []*agentbox.Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.listed
}

// begin follows a task in the background, if nobody does already and there is room for it. What is found of
// that is in free, so that it is not looked for again for each of thousands.
func (q *Queue) begin(t *agentbox.Task, free map[place]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// When the queue ends, its followers stop one by one, which makes no room for others.
	if _, followed := q.running[t.ID]; followed || q.ctx.Err() != nil {
		return
	}
	if t.State == agentbox.TaskQueued {
		if of, err := q.Store.bounds(t.ID); err != nil || !q.hasRoom(t, of, free) {
			return // if it cannot be read, it was removed meanwhile
		}
	}
	// It may have ended since it was listed: its follower recorded that before it stopped.
	now, rec, err := q.Store.readWhole(t.ID)
	if err != nil || now.State.Done() {
		return
	}
	q.count(rec, 1)
	begun := q.work.Go(func() {
		defer q.unfollow(rec)
		q.look()
		q.runAttempt(q.ctx, rec)
	})
	if !begun {
		q.count(rec, -1)
	}
}

// unfollow is the end of following a task.
func (q *Queue) unfollow(rec record) {
	q.mu.Lock()
	q.count(rec, -1)
	if w := q.watches[rec.ID]; w != nil && q.ctx.Err() == nil {
		delete(q.watches, rec.ID) // waiters have it already
		defer w.begin(nil)
	}
	q.mu.Unlock()
	q.announce()
	q.wake.Notify()
}

// count counts a task that is followed from now on, or with -1 not any more. The caller holds mu.
func (q *Queue) count(rec record, by int) {
	if q.running[rec.ID] = rec; by < 0 {
		delete(q.running, rec.ID)
	}
	if rec.Where != "" {
		q.elsewhere += by
	}
}

// hasRoom tells whether a task may begin. A foreground task always may, as a person waits for it; and so
// may a first one: the host refuses a box that is too large, with a reason. The caller holds mu.
func (q *Queue) hasRoom(t *agentbox.Task, of bounds, free map[place]int) bool {
	if t.Foreground {
		return true
	}
	if of.parallel > 0 && q.ofBatch(t.Batch) >= of.parallel {
		return false
	}
	if t.Where == "" {
		return q.hasPlace(of.need, free)
	}
	if len(t.Attempts) > 0 || q.Remote == nil { // it waits there already, or did
		return true
	}
	like := place{t.Where, t.Project, of.need}
	if _, known := free[like]; !known {
		free[like] = q.Remote.Room(*t, of.need, q.elsewhere)
	}
	free[like]--
	return free[like] >= 0
}

// hasPlace tells whether this machine has room for one more box. One that it has is taken.
func (q *Queue) hasPlace(need Need, free map[place]int) bool {
	if _, full := free[place{need: need}]; full {
		return false
	}
	var taken []Need
	for _, r := range q.running {
		if r.Where == "" {
			taken = append(taken, r.Need)
		}
	}
	has := len(taken) == 0 || q.HasRoom(taken, need)
	if !has {
		free[place{need: need}] = 0
	}
	return has
}

// ofBatch counts the tasks of a batch that have begun.
func (q *Queue) ofBatch(batch agentbox.TaskID) (n int) {
	for _, r := range q.running {
		if r.Batch == batch {
			n++
		}
	}
	return n
}

// Submission is tasks that are submitted together. Specs is not empty. Need applies to each.
type Submission struct {
	Specs    []agentbox.TaskSpec
	Parallel int // at most so many of them at once; 0: as the machine has room
	Need     Need
}

// Submit records the tasks, which begin when there is room. On an error it returns those that were
// recorded before, which stay and begin. The first task has the batch's ID as its own.
func (q *Queue) Submit(s Submission) ([]agentbox.Task, error) {
	defer q.wake.Notify()
	return q.write(s, agentbox.NewTaskID())
}

// write records the tasks. batch is the ID of the first one, and of the batch.
func (q *Queue) write(s Submission, batch agentbox.TaskID) ([]agentbox.Task, error) {
	var all []agentbox.Task
	for i, spec := range s.Specs {
		id := batch
		if i > 0 {
			id = agentbox.NewTaskID()
		}
		rec := record{
			Version: version, ID: id, TaskSpec: spec, Batch: batch, Parallel: s.Parallel, Need: s.Need,
			Created: time.Now().UTC(),
		}
		if err := write(filepath.Join(q.Store.task(id), recordFile), rec); err != nil {
			return all, err
		}
		t, err := q.Store.Read(id)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Cancel records that nobody wants a task any more, which holds while no daemon runs, too. A
// running task is ended; Cancel returns before that. The error is NotFound for no task, Conflict
// for one that has ended.
func (q *Queue) Cancel(id agentbox.TaskID) error { return q.cancel(id, cancellation{}) }

// cancel records that a task is to end, and why.
func (q *Queue) cancel(id agentbox.TaskID, why cancellation) error {
	t, err := q.Store.Read(id)
	if err != nil {
		return err
	}
	if t.State.Done() {
		return agentbox.Errorf(agentbox.Conflict, "task %s has ended: it is %s", id, t.State)
	}
	err = write(q.Store.cancelFile(id), why)
	q.Store.Memory.forget(id)
	if err != nil {
		return err
	}
	q.watch(id).cancel()
	q.announce() // one that waits in the queue is over
	q.wake.Notify()
	return nil
}

// Retry submits a task that has ended again, as a new task, so that the old one keeps its one
// result. Its place in a batch and its holder are not taken over. find finds what the new one is made
// from. The error is Conflict while the task goes on.
func (q *Queue) Retry(id agentbox.TaskID, find func(agentbox.TaskSpec) (*agentbox.SourceRef, error)) (agentbox.Task, error) {
	t, err := q.readEnded(id)
	if err != nil {
		return t, err
	}
	rec, err := q.Store.record(id)
	if err != nil {
		return t, err
	}
	spec := rec.TaskSpec.Unattended()
	if spec.Source, err = find(spec); err != nil {
		return t, err
	}
	all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{spec}, Need: rec.Need})
	if err != nil {
		return t, err
	}
	return all[0], nil
}

// Remove removes a task that has ended, with its evidence. A box that has its work stays, and so do
// the refs that it left in mirror and checkout. The error is Conflict while the task goes on.
func (q *Queue) Remove(id agentbox.TaskID) error {
	if _, err := q.readEnded(id); err != nil {
		return err
	}
	return q.Store.remove(id)
}

// Deliver records that the owner of a task that has ended, another machine, has its result. It stays, for its
// box.
func (q *Queue) Deliver(id agentbox.TaskID) error {
	if _, err := q.readEnded(id); err != nil {
		return err
	}
	err := write(filepath.Join(q.Store.task(id), deliveredFile), struct{}{})
	q.Store.Memory.forget(id)
	q.announce()
	return err
}

// readEnded reads a task that has ended. The error is Conflict while it goes on.
func (q *Queue) readEnded(id agentbox.TaskID) (agentbox.Task, error) {
	t, err := q.Store.Read(id)
	if err == nil && !t.State.Done() {
		err = agentbox.Errorf(agentbox.Conflict, "task %s is %s", id, t.State).WithHint("agentbox task cancel %s ends it", id)
	}
	return t, err
}

// evidenceRetention is how long the evidence of a task that left no work is kept.
const evidenceRetention = 30 * 24 * time.Hour

// Expired lists the tasks of which only old evidence is left: they ended a month ago, and no ref,
// box or artifact refers to them. The caller removes them.
func (q *Queue) Expired() (expired []agentbox.Task) {
	all, _ := q.Store.List() // what cannot be read stays
	for _, t := range all {
		ended := t.Created
		if last := t.Last(); last != nil && last.Result != nil {
			ended = last.Result.Ended
		}
		if t.State.Done() && time.Since(ended) > evidenceRetention && !slices.ContainsFunc(t.Attempts, hasWork) {
			expired = append(expired, t)
		}
	}
	return expired
}

// hasWork tells whether something refers to what an attempt did.
func hasWork(a agentbox.Attempt) bool {
	return a.Result == nil || a.Result.Ref != "" || a.Result.Box != "" || a.Result.Commits > 0 || a.Result.Files > 0 || a.Result.Artifacts > 0
}

// Wait returns when a task has ended, and its box has been removed or stays. The error is ctx's, or
// that of a task that cannot be read.
func (q *Queue) Wait(ctx context.Context, id agentbox.TaskID) (agentbox.Task, error) {
	w := q.watch(id)
	for {
		changed, removal := q.changes(w)
		t, over, err := q.readOver(ctx, id)
		if over {
			return t, err
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-changed:
		case <-removal:
		}
	}
}

// sweep removes the boxes of attempts that have a result and whose work is kept elsewhere: the last
// daemon was killed before it removed them.
func (q *Queue) sweep(ctx context.Context) {
	boxes, err := q.Boxes.List(ctx, api.ListRequest{}, func(agentbox.Event) {})
	if err != nil {
		q.Log.Error("cannot look for boxes of tasks that have ended", "error", err)
		return
	}
	all, _ := q.Store.list(nil)
	expired := map[string]bool{}
	for _, t := range all {
		for _, a := range t.Attempts {
			expired[a.BoxName] = a.Result != nil && a.Result.Box == ""
		}
	}
	for _, b := range boxes {
		if expired[b.Name] {
			q.remove(ctx, b)
		}
	}
}

// remove removes a box that has no work, or whose work is kept. It uses the ID: the name may be
// another box's by now.
func (q *Queue) remove(ctx context.Context, b agentbox.Box) {
	_, err := q.Boxes.Remove(ctx, api.BoxRef{Box: b.ID.String()}, nil)
	if err != nil && agentbox.CodeOf(err) != agentbox.NotFound && !errors.Is(err, context.Canceled) {
		q.Log.Error("cannot remove the box of a task that has ended", "box", b.Name, "error", err)
	}
}
