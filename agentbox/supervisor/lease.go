package supervisor

import (
	"sync"
	"time"
)

// lease ends when nobody has worked in the box for its term. While somebody does it stands still,
// and when the last one has gone it begins anew. It is enforced here, beside the machine, so that
// no crash of the daemon or of a client leaves a machine running past it.
//
// Its time is that of timers, the monotonic clock: it does not pass while the host sleeps, so a
// laptop finds its boxes in the morning as it left them, and setting the host's clock moves
// nothing. mu guards everything below it. The timer may fire although the lease was renewed at that
// moment, so tell looks again.
type lease struct {
	ended chan struct{} // receives when it has ended, and again after retry

	mu      sync.Mutex
	timer   *time.Timer
	term    time.Duration
	since   time.Time // when it last began
	workers int
	stopped bool
}

// newLease begins a lease. It runs from the start of the process, so that a supervisor that is
// never asked for anything ends, too.
func newLease(term time.Duration) *lease {
	l := &lease{ended: make(chan struct{}, 1), term: term, since: time.Now()}
	l.timer = time.AfterFunc(term, l.tell)
	return l
}

// tell says once that the lease has ended, if it has. An end that nobody has taken yet is not told
// twice.
func (l *lease) tell() {
	if !l.over() {
		return
	}
	select {
	case l.ended <- struct{}{}:
	default:
	}
}

// work says that work goes on in the box, from now until done is called. done may be called again.
// When the last worker has gone, the whole term is left.
func (l *lease) work() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers++
	l.timer.Stop()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.workers--
		l.begin()
	})
}

// renew lets the lease begin anew, for this term from now on.
func (l *lease) renew(term time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
	l.begin()
}

// begin is for callers that hold mu.
func (l *lease) begin() {
	l.since = time.Now()
	if l.workers == 0 && !l.stopped {
		l.timer.Reset(l.term)
	}
}

// retry tells the end of a lease again after d, unless somebody works in the box by then. A lease
// that was renewed meanwhile keeps its own end.
func (l *lease) retry(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers == 0 && !l.stopped && time.Since(l.since) >= l.term {
		l.timer.Reset(d)
	}
}

// over tells whether the lease has ended.
func (l *lease) over() bool {
	left, workers, _ := l.left()
	return workers == 0 && left <= 0
}

// left is for how long the lease goes on if nobody comes, negative when it has ended, beside how
// many work in the box now, and the term.
func (l *lease) left() (left time.Duration, workers int, term time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers > 0 {
		return l.term, l.workers, l.term
	}
	return l.term - time.Since(l.since), 0, l.term
}

// stop ends it for good: nothing is told any more.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
}
