package task

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// A held task is one that somebody waits for, at the terminal where it was begun. It begins at
// once, and is cancelled when its holder goes, unless that released it.

// holdGrace is how long a held task goes on without a holder: one whose daemon was replaced comes
// back.
const holdGrace = 30 * time.Second

// watch is what the daemon knows of an attempt and no file says: for those who wait for it. Each
// task has one, made when somebody first asks and dropped when the task has ended. environ is set
// before the task is written down, and does not change.
type watch struct {
	environ []string // of who submitted it

	once  sync.Once     // begin
	begun chan struct{} // closed by it
	err   error         // set before that: why there is no job

	// telling is held while progress is called, and guards it.
	telling  sync.Mutex
	progress agentbox.Progress // of whoever waits for the task to begin

	// mu guards what follows.
	mu      sync.Mutex
	box     string // of an attempt that has its result and whose box is removed
	holders int
	left    time.Time // when the last holder went
}

// watch gives the watch of a task, one for all.
func (q *Queue) watch(id agentbox.TaskID) *watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.watches[id]
	if w == nil {
		w = &watch{begun: make(chan struct{}), left: time.Now()}
		q.watches[id] = w
	}
	return w
}

// tell reports progress while the box is made, if anybody listens.
func (w *watch) tell(e agentbox.Event) {
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.progress != nil {
		w.progress(e)
	}
}

// listen has progress called from now on; nil: nobody. It waits for a call that is under way, so
// that none goes on or begins afterwards.
func (w *watch) listen(progress agentbox.Progress) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.progress = progress
}

// begin says that the task's command runs, or that it never will. The first call counts.
func (w *watch) begin(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.begun)
	})
}

// remove says that an attempt has its result, and its box goes.
func (w *watch) remove(box string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.box = box
}

// leaving tells whether an attempt has its result and its box is nobody's any more: what is left is
// to clear away.
func (w *watch) leaving(ctx context.Context, boxes Boxes) bool {
	w.mu.Lock()
	box := w.box
	w.mu.Unlock()
	if box == "" {
		return false
	}
	_, err := boxes.Find(ctx, api.BoxRef{Box: box})
	return agentbox.CodeOf(err) == agentbox.NotFound
}

// hold counts a holder in (+1) or out (-1), and tells how many there are.
func (w *watch) hold(by int) (left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders += by
	w.left = time.Now()
	return w.holders
}

// abandoned tells whether nobody has held the task for as long as a holder has to come back. A
// daemon that has just begun gives holders as much time to come back.
func (w *watch) abandoned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holders == 0 && time.Since(w.left) > holdGrace
}

// Begin submits one held task and returns when its command runs, or with the reason why it never
// will. The task is cancelled when ctx ends before. s has one spec. environ has NAME=VALUE of the
// holder's, for the includes of the box, and is never written down. No call of progress, which may
// be nil, begins after Begin has returned. Run must be running; whether there is room is not asked.
// The caller goes on with Hold, within holdGrace.
func (q *Queue) Begin(ctx context.Context, s Submission, environ []string, progress agentbox.Progress) (agentbox.Task, error) {
	s.Specs[0].Held = true
	id := agentbox.NewTaskID()
	w := q.watch(id) // complete before the task is written down: from then on the queue may begin it
	w.environ = environ
	w.listen(progress)
	defer w.listen(nil)
	w.hold(+1)
	defer w.hold(-1)
	all, err := q.write(s, id)
	if err != nil {
		q.forget(id)
		return agentbox.Task{}, err
	}
	q.begin(all[0])
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

// Hold waits for the end of a held task; its box is gone for everybody then, or stays. A holder
// whose ctx ends before cancels the task, unless it was released or has another holder. The error
// is ctx's when that has ended, Unavailable when the daemon stops: the task goes on then, and the
// holder may come back to the next daemon.
func (q *Queue) Hold(ctx context.Context, id agentbox.TaskID) (agentbox.Task, error) {
	w := q.watch(id)
	w.hold(+1)
	for {
		if !q.follows(id) || w.leaving(ctx, q.Boxes) {
			if t, err := q.Store.Read(id); err != nil || t.State.Done() {
				q.forget(id)
				return t, err
			}
		}
		select {
		case <-q.ctx.Done():
			return agentbox.Task{}, agentbox.Errorf(agentbox.Unavailable, "the daemon is stopping")
		case <-ctx.Done():
			if w.hold(-1) > 0 || q.Store.released(id) {
				return agentbox.Task{}, ctx.Err()
			}
			return agentbox.Task{}, errors.Join(ctx.Err(), q.Cancel(id))
		case <-time.After(pollEvery):
		}
	}
}

// forget drops the watch of a task.
func (q *Queue) forget(id agentbox.TaskID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watches, id)
}

// Release lets a held task go on without its holder. It lasts: the task is like any other from then
// on.
func (q *Queue) Release(id agentbox.TaskID) error {
	return write(filepath.Join(q.Store.task(id), releaseFile), struct{}{})
}

// letGo cancels held tasks that nobody holds any more.
func (q *Queue) letGo(t agentbox.Task) {
	if !t.Held || q.Store.released(t.ID) || q.Store.cancelled(t.ID) || !q.watch(t.ID).abandoned() {
		return
	}
	if err := q.Cancel(t.ID); err != nil {
		q.Log.Error("cannot cancel a task whose holder has gone", "task", t.ID, "error", err)
	}
}

// End cancels a task because it reached a limit that its holder keeps. The task's state is limited
// then. Conflict when it has ended already.
func (q *Queue) End(id agentbox.TaskID, limit agentbox.Limit) error {
	return q.cancel(id, cancellation{Limit: limit})
}

// follows tells whether an attempt of a task is followed still. Another process never does.
func (q *Queue) follows(id agentbox.TaskID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, yes := q.running[id]
	return yes
}

// upRequest asks for the box of an attempt. Limits that end a task are the box's own, and kept by
// its supervisor, so they hold while no daemon runs.
func (r *run) upRequest() api.UpRequest {
	limits := r.rec.Limits
	if r.rec.Held && limits.Wall > 0 {
		limits.Wall += holdGrace // its holder is exact, and counts from the command's beginning
	}
	environ := r.watch.environ
	if environ == nil {
		environ = r.rec.Environ
	}
	return api.UpRequest{
		Directory: r.rec.Directory, Name: r.BoxName, Image: r.rec.Image, Agent: r.rec.Agent, Isolation: r.rec.Isolation, CPUs: r.rec.CPUs, Memory: r.rec.Memory,
		Cold: r.rec.Cold, Task: true, TaskLimits: limits, Command: r.rec.Dir == "", Environ: environ,
	}
}
