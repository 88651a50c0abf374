package fleet

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// follow follows a task of another machine, if nobody does. give tells that this machine's owner
// needs it, so that the task is given back.
func (w *Worker) follow(ctx context.Context, work *sync.WaitGroup, owner identity.PeerID, t agentbox.Task, give bool) {
	q := question{Task: t.For.Task, Attempt: t.For.Attempt, Fence: t.For.Fence}
	if give && !t.State.Done() {
		q.Do = askReturn
		work.Go(func() { _ = w.tell(ctx, owner, q) })
		w.end(t)
	}
	w.mu.Lock()
	followed := w.followed[t.ID]
	w.followed[t.ID] = true
	w.mu.Unlock()
	if followed {
		return
	}
	work.Go(func() {
		w.deliver(ctx, owner, t.ID, q)
		w.mu.Lock()
		delete(w.followed, t.ID)
		w.mu.Unlock()
		w.Wake.Notify()
	})
}

// end cancels a task that nobody wants from here.
func (w *Worker) end(t agentbox.Task) {
	if err := w.Local.Cancel(t.ID); err != nil && agentbox.CodeOf(err) != agentbox.Conflict {
		w.Log.Error("cannot end a task of another machine", "task", t.ID, "error", err)
	}
}

// find returns a task of another machine as it is now; nil if it is not here any more.
func (w *Worker) find(id agentbox.TaskID) *agentbox.Task {
	for _, t := range w.Local.Tasks() {
		if t.ID == id {
			return &t
		}
	}
	return nil
}

// deliver says that a task goes on, with what it wrote, and then how it ended, until its owner has
// that or does not want it. An owner that cannot be reached is asked again: it may be asleep.
func (w *Worker) deliver(ctx context.Context, owner identity.PeerID, id agentbox.TaskID, q question) {
	for wait := beatEvery; ; {
		t := w.find(id)
		if t == nil {
			return
		}
		a, err := w.report(ctx, owner, *t, &q)
		switch {
		case err != nil:
			wait = min(2*wait, time.Minute)
		case a.Stop == "":
			wait = beatEvery
		case t.State.Done():
			if err := w.Local.Remove(id); err != nil {
				w.Log.Error("cannot remove a task that was delivered", "task", id, "error", err)
			}
			return
		default:
			w.end(*t)
			wait = beatEvery / 4
		}
		if !background.Sleep(ctx, wait) {
			return
		}
	}
}

// report tells the owner how a task goes, or how it ended.
func (w *Worker) report(ctx context.Context, owner identity.PeerID, t agentbox.Task, q *question) (answer, error) {
	var a answer
	var wrote bytes.Buffer
	read := func(s *wire.Stream) error { return wire.ReadMessage(s, &a, maxMessage) }
	if !t.State.Done() {
		q.Do = askBeat
		part := &window{skip: q.Offset, left: maxChunk, to: &wrote}
		_ = w.Local.Written(ctx, t, part) // what is missing comes with the result
		q.Chunk = wrote.Bytes()
		err := w.ask(ctx, owner, *q, read)
		q.Offset = a.Offset
		return a, err
	}
	done := question{Do: askFinish, Task: q.Task, Attempt: q.Attempt, Fence: q.Fence, Result: &agentbox.Result{State: t.State}}
	if last := t.Last(); last != nil && last.Result != nil {
		done.Result = last.Result
	}
	_ = w.Local.Written(ctx, t, &window{left: maxTranscript, to: &wrote})
	done.Transcript = int64(wrote.Len())
	err := w.askWith(ctx, owner, done, func(s *wire.Stream) error {
		if _, err := wrote.WriteTo(s); err != nil {
			return err
		}
		return w.Local.Pack(ctx, t, s)
	}, read)
	return a, err
}

// window passes on a part of what is written to it.
type window struct {
	skip int64
	left int
	to   io.Writer
}

func (w *window) Write(b []byte) (int, error) {
	n := len(b)
	skipped := min(w.skip, int64(n))
	w.skip -= skipped
	b = b[skipped:]
	b = b[:min(len(b), w.left)]
	w.left -= len(b)
	if len(b) > 0 {
		if _, err := w.to.Write(b); err != nil {
			return 0, err
		}
	}
	return n, nil
}
