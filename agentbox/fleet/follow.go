package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// questionOf begins a question about a task of another machine.
func questionOf(t agentbox.Task) question {
	return question{Task: t.For.Task, Attempt: t.For.Attempt, Fence: t.For.Fence}
}

// sendSave sends a snapshot to a task's owner.
func (w *Worker) sendSave(ctx context.Context, owner identity.PeerID, q question, document []byte, pack func(context.Context, io.Writer) error) error {
	q.Do, q.Document = askSave, document
	var a answer
	err := w.askWith(ctx, owner, q, func(s *wire.Stream) error { return pack(ctx, s) }, func(s *wire.Stream) error {
		return wire.ReadMessage(s, &a, maxMessage)
	})
	return errors.Join(err, stopError(a.Stop))
}

// follow follows a task of another machine, if nobody does.
func (w *Worker) follow(ctx context.Context, work *sync.WaitGroup, owner identity.PeerID, t agentbox.Task) {
	q := questionOf(t)
	w.mu.Lock()
	f, known := w.followed[t.ID]
	if !known {
		f.news = background.NewSignal()
	} else if f.part != partIn(t) {
		f.news.Notify()
	}
	f.part = partIn(t)
	w.followed[t.ID] = f
	w.mu.Unlock()
	if known {
		return
	}
	work.Go(func() {
		w.deliver(ctx, owner, t.ID, q, f.news)
		w.mu.Lock()
		delete(w.followed, t.ID)
		w.mu.Unlock()
		w.Wake.Notify()
		w.Changed()
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
// that or does not want it. An owner that cannot be reached is asked again: it may be asleep. One that is
// away for long, or no member any more, has the task end here, and what came of it waits (forget).
// It says at once that it has ended, when news says so.
func (w *Worker) deliver(ctx context.Context, owner identity.PeerID, id agentbox.TaskID, q question, news background.Signal) {
	var sent agentbox.Digest // the last snapshot that the owner has
	heard := time.Now()
	for wait := beatEvery; ; {
		t := w.find(id)
		if t == nil {
			return
		}
		a, err := w.report(ctx, owner, *t, &q)
		switch {
		case err != nil:
			if wait = min(2*wait, time.Minute); abandoned(*t, w.Team.IsMember(owner), heard, time.Now()) {
				w.end(*t)
			}
		case a.Stop == "":
			wait, heard = a.next(), time.Now()
			sent = w.replicate(ctx, owner, *t, q, sent)
		case t.State.Done():
			if err := w.Local.Remove(id); err != nil {
				w.Log.Error("cannot remove a task that was delivered", "task", id, "error", err)
			}
			return
		default:
			w.end(*t)
			wait = beatEvery / 4
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-time.After(wait):
		}
	}
}

// replicate sends the last snapshot of a task, unless the owner has it, and returns which it has.
func (w *Worker) replicate(ctx context.Context, owner identity.PeerID, t agentbox.Task, q question, sent agentbox.Digest) agentbox.Digest {
	last := t.Last()
	if last == nil || last.Saved == nil || last.Saved.Snapshot == sent || t.State.Done() {
		return sent
	}
	document, pack, err := w.Local.Saved(ctx, t)
	if err == nil {
		err = w.sendSave(ctx, owner, q, document, pack)
	}
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("the owner of a task does not get its snapshot", "task", t.ID, "error", err)
	}
	return last.Saved.Snapshot // the next one may arrive
}

// report tells the owner how a task goes, or how it ended.
func (w *Worker) report(ctx context.Context, owner identity.PeerID, t agentbox.Task, q *question) (answer, error) {
	var wrote bytes.Buffer
	if !t.State.Done() {
		q.Do = askBeat
		part := &window{skip: q.Offset, left: maxChunk, to: &wrote}
		_ = w.Local.Written(ctx, t, part) // what is missing comes with the result
		q.Chunk = wrote.Bytes()
		a, err := w.askBriefly(ctx, owner, *q)
		q.Offset = a.Offset
		return a, err
	}
	if w.Local.Returned(t.ID) {
		back := questionOf(t)
		back.Do = askReturn
		return w.askBriefly(ctx, owner, back)
	}
	done := question{Do: askFinish, Task: q.Task, Attempt: q.Attempt, Fence: q.Fence, Result: &agentbox.Result{State: t.State}}
	if last := t.Last(); last != nil && last.Result != nil {
		done.Result = last.Result
	}
	_ = w.Local.Written(ctx, t, &window{left: MaxTranscript, to: &wrote})
	done.Transcript = int64(wrote.Len())
	var a answer
	err := w.askWith(ctx, owner, done, func(s *wire.Stream) error {
		if _, err := wrote.WriteTo(s); err != nil {
			return err
		}
		return w.Local.Pack(ctx, t, s)
	}, func(s *wire.Stream) error { return wire.ReadMessage(s, &a, maxMessage) })
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
