package netstack

import (
	"sync"
	"time"
)

// attempts reports what the stack refuses: the first of a kind at once, then one report a second at
// most. Counting and not queueing is what bounds it: a box may send refused frames as fast as its
// CPUs can.
type attempts struct {
	report func(Attempt)

	mu     sync.Mutex // held while reporting too, so that reports come in order
	tally  map[Kind]*tally
	closed bool
}

// tally is what is known of one kind since the last report; detail is that of the first attempt.
type tally struct {
	detail string
	count  int
	quiet  *time.Timer // runs until the next report may be made
}

// attemptsEvery is the least time between two reports of one kind.
const attemptsEvery = time.Second

// newAttempts gives attempts that call report, one call at a time, from the goroutine that adds or
// from a timer's.
func newAttempts(report func(Attempt)) *attempts {
	return &attempts{report: report, tally: map[Kind]*tally{}}
}

// add counts one attempt. detail is called for those that are described. It waits while another
// report is being made, so a report that takes long slows the box down, and nothing else.
func (a *attempts) add(kind Kind, detail func() string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	t := a.tally[kind]
	if t == nil {
		t = &tally{}
		a.tally[kind] = t
	}
	if t.count == 0 {
		t.detail = detail()
	}
	if t.count++; t.quiet == nil {
		a.flush(kind, t)
	}
}

// flush reports a kind, and what comes of it within attemptsEvery when that is over; mu is held.
func (a *attempts) flush(kind Kind, t *tally) {
	n := t.count
	t.count = 0
	t.quiet = time.AfterFunc(attemptsEvery, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if t.quiet = nil; t.count > 0 && !a.closed {
			a.flush(kind, t)
		}
	})
	a.report(Attempt{Kind: kind, Detail: t.detail, Count: n})
}

// close reports what has waited; nothing is reported any more when it returns.
func (a *attempts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	for kind, t := range a.tally {
		if t.count > 0 {
			a.report(Attempt{Kind: kind, Detail: t.detail, Count: t.count})
		}
		if t.quiet != nil {
			t.quiet.Stop()
		}
	}
}
