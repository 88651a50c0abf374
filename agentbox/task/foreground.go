package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// A foreground task has a holder who waits for it, at the terminal where it was begun. It begins at once,
// and is cancelled when its holder goes, unless the holder released it.

// holdGrace is how long a foreground task goes on without a holder: a holder whose daemon was replaced
// comes back.
const holdGrace = 30 * time.Second

// watch is what the daemon knows of a task that is in no file, for those who wait for it. Each task
// has one, made when somebody first asks and dropped when the task has ended. environ is set before
// the task is recorded, and does not change.
type watch struct {
	environ []string // of the holder

	// cancelled ends when the task is cancelled.
	cancelled context.Context
	cancel    func()

	once  sync.Once     // begin
	begun chan struct{} // closed by it
	err   error         // why there is no job; set before begun is closed

	// progressMu is held while progress is called, and guards it.
	progressMu sync.Mutex
	progress   agentbox.Progress // of whoever waits for the task to begin

	// mu guards what follows.
	saving   sync.Mutex // held while a snapshot is taken
	mu       sync.Mutex
	box      string // of an attempt that has its result, while the box is removed
	holders  int
	lastLeft time.Time // when the last holder went
}

// watch returns the watch of a task, which all its waiters share.
func (q *Queue) watch(id agentbox.TaskID) *watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.watches[id]
	if w == nil {
		w = &watch{begun: make(chan struct{}), lastLeft: time.Now()}
		w.cancelled, w.cancel = context.WithCancel(context.Background())
		q.watches[id] = w
		q.lookForHolder()
	}
	return w
}

// lookForHolder has the queue look again when a task that has no holder now may have none for too long.
func (q *Queue) lookForHolder() { time.AfterFunc(holdGrace, q.wake.Notify) }

// leave removes a holder, and returns how many there are still.
func (q *Queue) leave(w *watch) (left int) {
	if left = w.addHolders(-1); left == 0 {
		q.lookForHolder()
	}
	return left
}

// report reports progress while the box is made, if anybody listens.
func (w *watch) report(e agentbox.Event) {
	w.progressMu.Lock()
	defer w.progressMu.Unlock()
	if w.progress != nil {
		w.progress(e)
	}
}

// setProgress has progress called from now on; nil: nobody. It waits for a call that is under way,
// so that none goes on or begins afterwards.
func (w *watch) setProgress(progress agentbox.Progress) {
	w.progressMu.Lock()
	defer w.progressMu.Unlock()
	w.progress = progress
}

// begin says that the task's command runs, or with an error that it never will. The first call
// counts.
func (w *watch) begin(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.begun)
	})
}

// setRemoving says that an attempt has its result, and that its box is being removed.
func (w *watch) setRemoving(box string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.box = box
}

// removing returns the box that is being removed, or "".
func (w *watch) removing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.box
}

// isRemoved tells whether an attempt has its result and its box cannot be found any more: only
// cleaning up is left.
func (w *watch) isRemoved(ctx context.Context, boxes Boxes) bool {
	box := w.removing()
	if box == "" {
		return false
	}
	_, err := boxes.Find(ctx, api.BoxRef{Box: box})
	return agentbox.CodeOf(err) == agentbox.NotFound
}

// addHolders adds a holder (+1) or removes one (-1), and returns how many there are.
func (w *watch) addHolders(by int) (left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders += by
	w.lastLeft = time.Now()
	return w.holders
}

// abandoned tells whether nobody has held the task for longer than a holder may take to come back.
// After a daemon has started, holders have as long.
func (w *watch) abandoned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holders == 0 && time.Since(w.lastLeft) >= holdGrace
}

// Begin submits one foreground task and returns when its command runs, or with the reason why it never
// will. If ctx ends before, the task is cancelled. s has one spec. environ is the holder's
// environment as NAME=VALUE, for the includes of the box, and is never written to disk. progress
// may be nil, and is not called after Begin has returned. Run must be running; it is not asked
// whether there is room. The caller goes on with Hold, within holdGrace.
func (q *Queue) Begin(ctx context.Context, s Submission, environ []string, progress agentbox.Progress) (agentbox.Task, error) {
	s.Specs[0].Foreground = true
	id := agentbox.NewTaskID()
	w := q.watch(id) // complete before the task is recorded: from then on the queue may begin it
	w.environ = environ
	w.setProgress(progress)
	defer w.setProgress(nil)
	w.addHolders(+1)
	defer q.leave(w)
	all, err := q.write(s, id)
	if err != nil {
		q.dropWatch(id)
		return agentbox.Task{}, err
	}
	q.begin(&all[0], map[place]int{})
	select {
	case <-w.begun:
	case <-ctx.Done():
		return agentbox.Task{}, errors.Join(ctx.Err(), q.Cancel(id))
	}
	if w.err != nil {
		return agentbox.Task{}, w.err
	}
	return q.Store.Read(id)
}

// Hold waits for the end of a foreground task; its box has then been removed, or stays. If ctx ends
// before, the task is cancelled, unless it was released or has another holder. The error is ctx's
// if that has ended, and Unavailable if the daemon stops: the task then goes on, and the holder may
// come back to the next daemon.
func (q *Queue) Hold(ctx context.Context, id agentbox.TaskID) (agentbox.Task, error) {
	w := q.watch(id)
	w.addHolders(+1)
	for {
		changed, removal := q.changes(w)
		if t, over, err := q.readOver(ctx, id); over {
			q.dropWatch(id)
			return t, err
		}
		select {
		case <-q.ctx.Done():
			return agentbox.Task{}, agentbox.Errorf(agentbox.Unavailable, "the daemon is stopping")
		case <-ctx.Done():
			if q.leave(w) > 0 || q.Store.released(id) {
				return agentbox.Task{}, ctx.Err()
			}
			return agentbox.Task{}, errors.Join(ctx.Err(), q.Cancel(id))
		case <-changed:
		case <-removal:
		}
	}
}

// dropWatch drops the watch of a task.
func (q *Queue) dropWatch(id agentbox.TaskID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watches, id)
}

// Release lets a foreground task go on without its holder, for good: from then on it is like any other
// task.
func (q *Queue) Release(id agentbox.TaskID) error {
	return write(filepath.Join(q.Store.task(id), releaseFile), struct{}{})
}

// cancelAbandoned cancels a foreground task that nobody holds any more.
func (q *Queue) cancelAbandoned(t *agentbox.Task) {
	if !t.Foreground || q.Store.released(t.ID) || q.Store.cancelled(t.ID) || !q.watch(t.ID).abandoned() {
		return
	}
	if err := q.Cancel(t.ID); err != nil {
		q.Log.Error("cannot cancel a task whose holder has gone", "task", t.ID, "error", err)
	}
}

// End cancels a task because it reached a limit that its holder enforces; the task's state becomes
// limited. The error is Conflict if it has ended already.
func (q *Queue) End(id agentbox.TaskID, limit agentbox.Limit) error {
	return q.cancel(id, cancellation{Limit: limit})
}

// readOver reads a task and tells whether it is over: it has ended, and its box has been removed or
// stays. A task that cannot be read is over, too, with the reason.
func (q *Queue) readOver(ctx context.Context, id agentbox.TaskID) (t agentbox.Task, over bool, err error) {
	q.mu.Lock()
	_, following := q.running[id]
	w := q.watches[id]
	q.mu.Unlock()
	if following && (w == nil || !w.isRemoved(ctx, q.Boxes)) {
		return t, false, nil
	}
	t, err = q.Store.Read(id)
	return t, err != nil || t.State.Done(), err
}

// upRequest asks for the box of an attempt. The box's supervisor enforces the limits of the task,
// so they hold while no daemon runs.
func (r *run) upRequest() api.UpRequest {
	limits := r.rec.Limits
	if r.rec.Foreground && limits.Wall > 0 {
		limits.Wall += holdGrace // its holder is exact, and counts from the start of the command
	}
	environ := r.watch.environ
	if environ == nil {
		environ = r.rec.Environ
	}
	var loan json.RawMessage
	if r.rec.For != nil {
		loan = r.rec.For.Loan
	}
	return api.UpRequest{
		Directory: r.rec.Directory, Source: cmp.Or(r.Continue, r.rec.Source), Name: r.BoxName, Image: r.rec.Image, Agent: r.rec.Agent, Isolation: r.rec.Isolation, CPUs: r.rec.CPUs, Memory: r.rec.Memory,
		Cold: r.rec.Cold, Task: true, Foreign: r.rec.For != nil, Loan: loan, TaskLimits: limits, Command: r.rec.Dir == "", Environ: environ,
	}
}
