package task

import (
	"cmp"
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

// Boxes is what tasks need of the boxes. Its methods may be called at once; of one box that is not
// there they say NotFound.
type Boxes interface {
	Up(context.Context, api.UpRequest, agentbox.Progress) (api.UpResponse, error)
	Find(context.Context, api.BoxRef) (agentbox.Box, error)
	List(context.Context, api.ListRequest, agentbox.Progress) ([]agentbox.Box, error)
	Unlimit(context.Context, api.BoxRef) error // its limits end it no more: its work is to be looked at
	Stop(context.Context, api.BoxRef) error    // ends its machine; the workspace stays
	Remove(context.Context, api.BoxRef, agentbox.Progress) (agentbox.Box, error)
}

// Jobs is what tasks need of jobs. Start with an ID that was started already starts nothing.
type Jobs interface {
	Start(context.Context, api.JobStart) (api.JobStarted, error)
	Show(ctx context.Context, box string, id agentbox.JobID) (api.JobInfo, error) // NotFound: the job, or its box, is not there
	Signal(context.Context, api.JobSignal) error
}

// Snapshotter keeps the work of a task's box where it outlives the box. It may be called again
// after an error. An error means that the box may have work that is nowhere else.
type Snapshotter interface {
	Keep(ctx context.Context, box agentbox.Box, task agentbox.Task) (Kept, error)
}

// Collector takes the artifacts of a task's box, whose work was kept, into the directory of its
// attempt. It may be called again for one attempt. dir is the attempt's, and what it writes there
// is replaced at a second call.
type Collector interface {
	Collect(ctx context.Context, box agentbox.Box, task agentbox.Task, work Kept, dir string) (artifact.Collected, error)
}

// EvidenceSource tells how the box of an attempt went, and keeps the logs of its services in the
// attempt's directory. With an error it tells what it knows. It is asked while the machine is
// there, or has just gone.
type EvidenceSource interface {
	Gather(ctx context.Context, box agentbox.Box, dir string) (Evidence, error)
}

// Evidence is what an EvidenceSource tells; see agentbox.Result.
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
	Nothing bool                  // the box has what it began with
	Missing []string              // what could not be kept, and why

	Unexported string // why Ref is in the mirror only; the box is not needed for that
	Unlisted   string // why Changes are not known
}

// Config is what a Queue needs. All but Collector and Evidence are needed.
type Config struct {
	Store       Store
	Boxes       Boxes
	Jobs        Jobs
	Snapshotter Snapshotter

	Collector Collector      // nil: there are no artifacts
	Evidence  EvidenceSource // nil: nobody looks

	// Room tells whether a box of this need may be made beside those that tasks have already. It is
	// asked with the queue's lock held, and must not call the queue.
	Room func(running []Need, next Need) bool
	Log  *slog.Logger
}

// Queue begins tasks when there is room and follows them to their end. Methods may be called from
// any goroutine, Run once. Every task that runs has a goroutine, which ends with the task or with
// the queue's context; Run waits for all.
type Queue struct {
	Config
	ctx  context.Context
	wake chan struct{}
	work background.Group // the tasks that are followed; closed by Run

	// mu guards running, listed and watches. done belongs to the goroutine of Run.
	mu      sync.Mutex
	running map[agentbox.TaskID]record
	done    map[agentbox.TaskID]bool // tasks that look need not read again; it alone has them
	listed  []agentbox.Task          // that are not done, when it looked last
	watches map[agentbox.TaskID]*watch
}

// NewQueue makes a queue, which runs until ctx ends.
func NewQueue(ctx context.Context, c Config) *Queue {
	return &Queue{Config: c, ctx: ctx, wake: make(chan struct{}, 1),
		running: map[agentbox.TaskID]record{}, done: map[agentbox.TaskID]bool{}, watches: map[agentbox.TaskID]*watch{}}
}

// lookEvery is how often the queue looks whether there is room without being told. Room comes from
// boxes that are not tasks', which tell nobody.
const lookEvery = 2 * time.Second

// Run begins and follows tasks until the queue's context ends. The tasks that run then go on: the
// next queue finds them. Boxes that the daemon before left behind are removed first.
func (q *Queue) Run() {
	q.sweep(q.ctx)
	if err := q.Store.sweep(); err != nil {
		q.Log.Error("cannot remove what is left of removed tasks", "error", err)
	}
	for q.ctx.Err() == nil {
		q.look()
		select {
		case <-q.ctx.Done():
		case <-q.wake:
		case <-time.After(lookEvery):
		}
	}
	q.work.Close()
}

// stir has the queue look at once.
func (q *Queue) stir() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// look takes up what runs already and begins what there is room for, the oldest first. What runs
// already comes first, so that it is counted before there is said to be room.
func (q *Queue) look() {
	open, bad := q.Store.undone(q.done)
	for _, err := range bad {
		q.Log.Error("cannot read a task", "error", err)
	}
	q.mu.Lock()
	q.listed = open
	q.mu.Unlock()
	for _, t := range open {
		q.letGo(t)
	}
	for _, running := range []bool{true, false} {
		for _, t := range open {
			if (t.State == agentbox.TaskRunning) == running {
				q.begin(t)
			}
		}
	}
}

// Open lists the tasks that were not done when the queue looked last, some seconds ago at most. The
// slice is shared: it is only to be read.
func (q *Queue) Open() []agentbox.Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.listed
}

// begin follows a task in the background, if nobody does already and there is room for it.
func (q *Queue) begin(t agentbox.Task) {
	rec, err := q.Store.record(t.ID)
	if err != nil {
		return // it was removed meanwhile
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// When the queue ends its followers leave off one by one, which is no room for others.
	if _, followed := q.running[t.ID]; followed || q.ctx.Err() != nil {
		return
	}
	// It can have ended since it was listed: its follower wrote that down before leaving off.
	if t, err = q.Store.Read(t.ID); err != nil || t.State.Done() || t.State == agentbox.TaskQueued && !q.room(rec) {
		return
	}
	q.running[t.ID] = rec
	begun := q.work.Go(func() {
		defer func() {
			q.mu.Lock()
			delete(q.running, t.ID)
			if w := q.watches[t.ID]; w != nil && q.ctx.Err() == nil {
				delete(q.watches, t.ID) // those who wait have it
				defer w.begin(nil)
			}
			q.mu.Unlock()
			q.stir()
		}()
		q.attempt(q.ctx, rec)
	})
	if !begun {
		delete(q.running, t.ID)
	}
}

// room tells whether a task may begin. The caller has the lock. A held task always may, and the
// first task, too: a box that is too large is refused by the host, with a reason.
func (q *Queue) room(rec record) bool {
	var taken []Need
	batch := 0
	for _, r := range q.running {
		taken = append(taken, r.Need)
		if r.Batch == rec.Batch {
			batch++
		}
	}
	if rec.Held { // a person waits: as for a box of theirs
		return true
	}
	if rec.Parallel > 0 && batch >= rec.Parallel {
		return false
	}
	return len(taken) == 0 || q.Room(taken, rec.Need)
}

// Submission is tasks that are submitted together. Specs is not empty. Need is of each.
type Submission struct {
	Specs    []agentbox.TaskSpec
	Parallel int // at most so many of them at once; 0: as the machine has room
	Need     Need
}

// Submit writes the tasks down, all or, on an error, as many as it says, and begins them when there
// is room. The first has the batch's ID as its own. What was written before an error stays and is
// begun.
func (q *Queue) Submit(s Submission) ([]agentbox.Task, error) {
	defer q.stir()
	return q.write(s, agentbox.NewTaskID())
}

// write writes the tasks down. batch is the ID of the first of them, and what they have in common.
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

// Cancel says that nobody wants a task any more. One that runs is ended; it returns before that.
// NotFound for no task, Conflict for one that has ended. It holds when no daemon runs, too: it is a
// file.
func (q *Queue) Cancel(id agentbox.TaskID) error { return q.cancel(id, cancellation{}) }

// cancel writes down that a task is to end, and why.
func (q *Queue) cancel(id agentbox.TaskID, why cancellation) error {
	t, err := q.Store.Read(id)
	if err != nil {
		return err
	}
	if t.State.Done() {
		return agentbox.Errorf(agentbox.Conflict, "task %s has ended: it is %s", id, t.State)
	}
	if err := write(filepath.Join(q.Store.task(id), cancelFile), why); err != nil {
		return err
	}
	q.stir()
	return nil
}

// Retry submits a task again that has ended: a new task, so that the old one keeps its one result.
// Conflict while it goes on. Its place in a batch, and a holder, are not taken over.
func (q *Queue) Retry(id agentbox.TaskID) (agentbox.Task, error) {
	t, err := q.ended(id)
	if err != nil {
		return t, err
	}
	rec, err := q.Store.record(id)
	if err != nil {
		return t, err
	}
	all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{rec.TaskSpec.Alone()}, Need: rec.Need})
	if err != nil {
		return t, err
	}
	return all[0], nil
}

// Remove forgets a task that has ended, with its evidence. A box that has its work stays. Refs that
// it left in mirror and checkout stay, too. Conflict while it goes on.
func (q *Queue) Remove(id agentbox.TaskID) error {
	if _, err := q.ended(id); err != nil {
		return err
	}
	return q.Store.remove(id)
}

// ended reads a task that has ended. Conflict while it goes on.
func (q *Queue) ended(id agentbox.TaskID) (agentbox.Task, error) {
	t, err := q.Store.Read(id)
	if err == nil && !t.State.Done() {
		err = agentbox.Errorf(agentbox.Conflict, "task %s is %s", id, t.State).WithHint("agentbox task cancel %s ends it", id)
	}
	return t, err
}

// keptFor is how long the evidence of a task is kept that has left no work.
const keptFor = 30 * 24 * time.Hour

// Spent lists the tasks of which only old evidence is left: they ended a month ago, and neither a
// ref, a box nor an artifact holds anything of them. Removing them is the caller's.
func (q *Queue) Spent() (spent []agentbox.Task) {
	all, _ := q.Store.List() // what cannot be read stays
	for _, t := range all {
		ended := t.Created
		if last := t.Last(); last != nil && last.Result != nil {
			ended = last.Result.Ended
		}
		if t.State.Done() && time.Since(ended) > keptFor && !slices.ContainsFunc(t.Attempts, leftWork) {
			spent = append(spent, t)
		}
	}
	return spent
}

// leftWork tells whether something refers to what an attempt did.
func leftWork(a agentbox.Attempt) bool {
	return a.Result == nil || a.Result.Ref != "" || a.Result.Box != "" || a.Result.Commits > 0 || a.Result.Files > 0 || a.Result.Artifacts > 0
}

// Wait returns when a task has ended. The error is ctx's, or that of a task that cannot be read.
func (q *Queue) Wait(ctx context.Context, id agentbox.TaskID) (t agentbox.Task, err error) {
	waited := until(ctx, func() bool {
		t, err = q.Store.Read(id)
		return err != nil || t.State.Done()
	})
	return t, cmp.Or(err, waited)
}

// sweep removes the boxes of attempts that have a result and whose work is not in them: the last
// daemon was killed between the two.
func (q *Queue) sweep(ctx context.Context) {
	boxes, err := q.Boxes.List(ctx, api.ListRequest{}, func(agentbox.Event) {})
	if err != nil {
		q.Log.Error("cannot look for boxes of tasks that have ended", "error", err)
		return
	}
	all, _ := q.Store.List()
	spent := map[string]bool{}
	for _, t := range all {
		for _, a := range t.Attempts {
			spent[a.BoxName] = a.Result != nil && a.Result.Box == ""
		}
	}
	for _, b := range boxes {
		if spent[b.Name] {
			q.remove(ctx, b)
		}
	}
}

// remove removes a box whose work is kept or that has none. It is looked up by id: the name may be
// another box's by now.
func (q *Queue) remove(ctx context.Context, b agentbox.Box) {
	_, err := q.Boxes.Remove(ctx, api.BoxRef{Box: b.ID.String()}, nil)
	if err != nil && agentbox.CodeOf(err) != agentbox.NotFound && !errors.Is(err, context.Canceled) {
		q.Log.Error("cannot remove the box of a task that has ended", "box", b.Name, "error", err)
	}
}
