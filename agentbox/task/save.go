package task

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
)

// Save takes a snapshot of the box of a task whose command runs. The error is Conflict for any other
// task, Unavailable if nothing takes snapshots here.
func (q *Queue) Save(ctx context.Context, id agentbox.TaskID) (agentbox.SavedWork, error) {
	w := q.watch(id)
	w.saving.Lock()
	defer w.saving.Unlock()
	t, err := q.Store.Read(id)
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	last := t.Last()
	if q.Saver == nil {
		return agentbox.SavedWork{}, agentbox.Errorf(agentbox.Unavailable, "no snapshots of tasks are taken here")
	}
	if last == nil || last.Result != nil || t.Where != "" {
		return agentbox.SavedWork{}, agentbox.Errorf(agentbox.Conflict, "task %s does not run here: it is %s", id, t.State)
	}
	box, err := q.Boxes.Find(ctx, api.BoxRef{Box: last.BoxName})
	if err == nil && box.State != agentbox.Running {
		err = agentbox.Errorf(agentbox.Conflict, "box %s is %s", box.Name, box.State)
	}
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	saved, err := q.Saver.Save(ctx, box, t)
	if err != nil {
		return saved, err
	}
	return saved, write(filepath.Join(q.Store.Attempt(id, last.Number), SavedFile), saved)
}

// keepSaving takes snapshots until stop is called, which waits for the last one to be over.
func (r *run) keepSaving(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r.q.Saver != nil && r.q.SaveEvery > 0 && background.Sleep(ctx, r.q.SaveEvery) {
			if _, err := r.q.Save(ctx, r.rec.ID); err != nil && ctx.Err() == nil {
				r.q.Log.Warn("cannot take a snapshot of a task", "task", r.rec.ID, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// settleSaved ends the use of the last snapshot of an attempt. With adopt, nobody could look into the box
// at the end, and the snapshot is the attempt's work. It returns what drops it, which is called once the
// result is on disk: the next daemon adopts it again if this one is killed before.
func (r *run) settleSaved(ctx context.Context, result *agentbox.Result, adopt bool) (drop func()) {
	none := func() {}
	var saved *agentbox.SavedWork
	if r.q.Saver == nil || ctx.Err() != nil || read(filepath.Join(r.dir, SavedFile), &saved) != nil {
		return none
	}
	a := r.Attempt
	a.Saved = saved
	t, err := r.q.Store.Read(r.rec.ID)
	if err != nil {
		return none
	}
	if adopt && result.Ref == "" && result.State != agentbox.TaskSucceeded {
		if err := r.q.Saver.Adopt(ctx, t, a, result); err != nil {
			r.q.Log.Warn("the last snapshot of a task cannot be its result", "task", t.ID, "error", err)
			return none
		}
		result.Notes = append(result.Notes, "its work is that of the snapshot of "+saved.Time.Local().Format(time.DateTime))
	}
	return func() {
		r.q.Saver.Drop(ctx, a)
		// The task may be gone.
		if err := os.Remove(filepath.Join(r.dir, SavedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.q.Log.Warn("cannot remove the record of a snapshot", "task", t.ID, "error", err)
		}
		r.q.Store.Memory.forget(t.ID)
	}
}

// Return gives up a task of another machine: its box goes at once. What was done in it is saved
// before, or lost.
func (q *Queue) Return(id agentbox.TaskID) error { return q.cancel(id, cancellation{Returned: true}) }

// Returned tells whether a task was given up by Return.
func (q *Queue) Returned(id agentbox.TaskID) bool { return q.Store.cancellation(id).Returned }

// giveUp ends an attempt that was given back (Return).
func (r *run) giveUp(ctx context.Context, box *agentbox.Box) {
	result := agentbox.Result{State: agentbox.TaskCancelled, Reason: "this machine was needed", Ended: time.Now().UTC()}
	r.timeline.add("ended", result.Reason)
	if box != nil {
		r.q.remove(ctx, *box)
	}
	drop := r.settleSaved(ctx, &result, false) // its owner has it, or begins where the one before was
	if r.finish(ctx, result) {
		drop()
	}
}

// continuedText names what an attempt goes on from; "" for one that begins anew.
func continuedText(from *agentbox.SourceRef) string {
	if from == nil {
		return ""
	}
	return "source " + from.Digest.Short()
}
