package fleet

import (
	"context"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// giveBackTime bounds how long a machine whose owner came back works on the snapshot of a task.
const giveBackTime = 15 * time.Second

// refuseTime is how long a task is not taken again that this machine's owner does not want.
const refuseTime = 24 * time.Hour

// Refuse gives back a task that this machine's owner does not want here. Another machine goes on.
func (w *Worker) Refuse(t agentbox.Task) error {
	owner, err := identity.ParsePeer(t.For.Owner)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == nil {
		return agentbox.Errorf(agentbox.Unavailable, "the daemon is just starting")
	}
	w.refused[t.ID] = true
	w.not[attemptOf(owner, t.For.Task, t.For.Attempt)] = time.Now().Add(refuseTime)
	w.Wake.Notify()
	return nil
}

// giveBack gives back tasks, all of them if this machine's owner needs it: first every box stands
// still, then one after the other is saved, and goes.
func (w *Worker) giveBack(ctx context.Context, work *sync.WaitGroup, needed bool) {
	var all []agentbox.Task
	w.mu.Lock()
	for _, t := range w.Local.Tasks() {
		if (needed && t.Where == "" || w.refused[t.ID]) && !t.State.Done() && !w.returns[t.ID] && !w.Local.Returned(t.ID) {
			w.returns[t.ID] = true
			all = append(all, t)
		}
	}
	w.mu.Unlock()
	if len(all) == 0 {
		return
	}
	work.Go(func() {
		var frozen sync.WaitGroup
		for _, t := range all {
			frozen.Go(func() {
				if err := w.Local.Freeze(ctx, t); err != nil && t.Where == "" {
					w.Log.Warn("cannot stop a box of another machine at once", "task", t.ID, "error", err)
				}
			})
		}
		frozen.Wait()
		for _, t := range all {
			w.giveBackOne(ctx, t)
			w.mu.Lock()
			delete(w.returns, t.ID)
			delete(w.refused, t.ID)
			w.mu.Unlock()
		}
		w.Wake.Notify()
	})
}

// giveBackOne takes a last snapshot, for the machine that goes on. Without it that one begins where the
// snapshot before was.
func (w *Worker) giveBackOne(ctx context.Context, t agentbox.Task) {
	owner, err := identity.ParsePeer(t.For.Owner)
	if err != nil {
		return
	}
	q := questionOf(t)
	saving, cancel := context.WithTimeout(ctx, giveBackTime)
	if partIn(t) != keeps { // of what is only kept here, its owner has the snapshots
		err = w.saveLast(saving, owner, t, q)
	}
	cancel()
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("a task is given back without a last snapshot", "task", t.ID, "error", err)
	}
	if err := w.Local.Return(t.ID); err != nil && agentbox.CodeOf(err) != agentbox.Conflict {
		w.Log.Error("cannot give back a task", "task", t.ID, "error", err)
	}
	q.Do = askReturn
	_ = w.tell(ctx, owner, q) // deliver says it again
}

func (w *Worker) saveLast(ctx context.Context, owner identity.PeerID, t agentbox.Task, q question) error {
	if err := w.Local.Still(ctx, t); err != nil {
		return err
	}
	document, pack, err := w.Local.Save(ctx, t)
	if err != nil {
		return err
	}
	return w.sendSave(ctx, owner, q, document, pack)
}
