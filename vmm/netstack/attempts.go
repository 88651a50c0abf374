package netstack

import (
	"sync"
	"time"
)

// attempts reports what the stack refuses: the first attempt of a kind at once, then at most one
// report a second. Attempts are counted and not queued, so a box that floods takes no memory.
type attempts struct {
	report func(Attempt)

	mu       sync.Mutex // also held while reporting, so that reports come in order
	counters map[Kind]*counter
	closed   bool
}

// counter counts the attempts of one kind since the last report.
type counter struct {
	detail string // of the first
	count  int
	timer  *time.Timer // runs until the next report is due
}

// reportInterval is the least time between two reports of one kind.
const reportInterval = time.Second

// newAttempts makes attempts that call report, one call at a time, from the goroutine that calls
// add or that of a timer.
func newAttempts(report func(Attempt)) *attempts {
	return &attempts{report: report, counters: map[Kind]*counter{}}
}

// add counts one attempt. It calls detail only if the attempt is the first of a report. It blocks
// during another report, so a slow report slows down the box and nothing else.
func (a *attempts) add(kind Kind, detail func() string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	t := a.counters[kind]
	if t == nil {
		t = &counter{}
		a.counters[kind] = t
	}
	if t.count == 0 {
		t.detail = detail()
	}
	if t.count++; t.timer == nil {
		a.flush(kind, t)
	}
}

// flush reports a kind now, and what comes of it within reportInterval after that. mu is held.
func (a *attempts) flush(kind Kind, t *counter) {
	n := t.count
	t.count = 0
	t.timer = time.AfterFunc(reportInterval, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if t.timer = nil; t.count > 0 && !a.closed {
			a.flush(kind, t)
		}
	})
	a.report(Attempt{Kind: kind, Detail: t.detail, Count: n})
}

// close reports what is left. There are no reports after it.
func (a *attempts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	for kind, t := range a.counters {
		if t.count > 0 {
			a.report(Attempt{Kind: kind, Detail: t.detail, Count: t.count})
		}
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}
