package fleet

import (
	"context"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
)

// What came of a task waits here for its owner, who may be asleep, or gone for good.
const (
	// ownerAway is how long a task runs on for an owner that says nothing.
	ownerAway = 7 * 24 * time.Hour
	// mostLeft is how many tasks that ran here stay when they have ended. Those that a builder keeps are
	// bounded when they come.
	mostLeft    = 100
	forgetEvery = 10 * time.Minute
)

// abandoned tells whether a task is to end here although its owner has not said so. heard is when the owner
// last said anything.
func abandoned(t agentbox.Task, member bool, heard, now time.Time) bool {
	return !t.State.Done() && (!member || t.Where == "" && now.Sub(heard) > ownerAway)
}

// overdue are the tasks that have ended here and that nobody is waited for any more.
func overdue(all []agentbox.Task, now time.Time) (over []agentbox.Task) {
	var ran []agentbox.Task
	for _, t := range all {
		switch until := t.KeptUntil(); {
		case until.IsZero():
		case now.After(until):
			over = append(over, t)
		case t.Where == "":
			ran = append(ran, t)
		}
	}
	slices.SortFunc(ran, func(a, b agentbox.Task) int { return b.KeptUntil().Compare(a.KeptUntil()) })
	return append(over, ran[min(len(ran), mostLeft):]...)
}

// forget drops what is overdue until ctx ends.
func (w *Worker) forget(ctx context.Context) {
	for {
		for _, t := range overdue(w.Local.Tasks(), time.Now()) {
			w.Log.Warn("a task of another machine goes, as nobody has asked for it", "task", t.ID, "owner", t.For.Name)
			if err := w.Local.Forget(ctx, t); err != nil && ctx.Err() == nil {
				w.Log.Error("cannot remove a task of another machine", "task", t.ID, "error", err)
			}
		}
		if !background.Sleep(ctx, forgetEvery) {
			return
		}
	}
}

// part is what this machine has to do with a task of another one.
type part int

const (
	runs  part = iota // it takes a place
	keeps             // for its owner, while others run it
	ended             // its owner does not have the result yet
)

// followed is a task of another machine whose owner is told how it goes.
type followed struct {
	part part
	news background.Signal // it has ended
}

func partIn(t agentbox.Task) part {
	switch {
	case t.State.Done():
		return ended
	case t.Where != "":
		return keeps
	}
	return runs
}
