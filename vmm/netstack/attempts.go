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
	every  time.Duration

	mu     sync.Mutex // held while reporting too, so that reports come in order
	tally  map[Kind]*tally
	timer  *time.Timer // runs while something waits to be reported
	closed bool
}

// tally is what is known of one kind; detail is that of the first attempt since the last report.
type tally struct {
	detail string
	count  int       // since the last report
	last   time.Time // when that was
}

// attemptsEvery is the least time between two reports of one kind.
const attemptsEvery = time.Second

// newAttempts gives attempts that call report, one call at a time, from the goroutine that adds or
// from a timer's.
func newAttempts(report func(Attempt)) *attempts {
	return &attempts{report: report, every: attemptsEvery, tally: map[Kind]*tally{}}
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
	t.count++
	if time.Since(t.last) >= a.every {
		a.flush(kind, t)
	} else if a.timer == nil {
		a.timer = time.AfterFunc(a.every, a.tick)
	}
}

// flush reports a kind; mu is held.
func (a *attempts) flush(kind Kind, t *tally) {
	n := t.count
	t.count, t.last = 0, time.Now()
	a.report(Attempt{Kind: kind, Detail: t.detail, Count: n})
}

// tick reports what has waited.
func (a *attempts) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = nil
	a.flushAll()
}

// flushAll reports every kind that has something to report; mu is held.
func (a *attempts) flushAll() {
	for kind, t := range a.tally {
		if t.count > 0 {
			a.flush(kind, t)
		}
	}
}

// close reports what has waited; nothing is reported any more when it returns.
func (a *attempts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	a.flushAll()
}
