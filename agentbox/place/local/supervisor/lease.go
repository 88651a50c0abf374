package supervisor

import (
	"sync"
	"time"
)

// lease ends when nobody has worked in the box for its term. It stands still while somebody works,
// and starts over when the last one leaves. It is enforced here, beside the machine, so that no
// crash of the daemon or of a client leaves a machine running past it.
//
// It uses the monotonic clock, which stands still while the host sleeps: a laptop finds its boxes
// in the morning as it left them, and setting the host's clock changes nothing. mu guards
// everything below it. The timer may fire although the lease was renewed at that moment, so
// signalEnd checks again.
type lease struct {
	ended chan struct{} // receives when it has ended, and again after retry

	mu      sync.Mutex
	timer   *time.Timer
	term    time.Duration
	since   time.Time // when it last began
	holders int
	stopped bool
}

// newLease starts a lease. It runs from the start of the process, so that a supervisor that nobody
// ever calls ends, too.
func newLease(term time.Duration) *lease {
	l := &lease{ended: make(chan struct{}, 1), term: term, since: time.Now()}
	l.timer = time.AfterFunc(term, l.signalEnd)
	return l
}

// signalEnd signals that the lease has ended, if it has. An end that nobody has received yet is not
// signalled twice.
func (l *lease) signalEnd() {
	if !l.expired() {
		return
	}
	select {
	case l.ended <- struct{}{}:
	default:
	}
}

// hold counts a holder of the lease, somebody who works in the box, from now until done is called.
// done may be called more than once. The whole term is left when the last holder leaves.
func (l *lease) hold() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders++
	l.timer.Stop()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holders--
		l.begin()
	})
}

func (l *lease) renew(term time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
	l.begin()
}

// begin starts the term over. The caller holds mu.
func (l *lease) begin() {
	l.since = time.Now()
	if l.holders == 0 && !l.stopped {
		l.timer.Reset(l.term)
	}
}

// retry signals the end of a lease again after d, unless somebody works in the box by then. A lease
// that was renewed meanwhile keeps its own end.
func (l *lease) retry(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == 0 && !l.stopped && time.Since(l.since) >= l.term {
		l.timer.Reset(d)
	}
}

func (l *lease) expired() bool {
	left, workers, _ := l.remaining()
	return workers == 0 && left <= 0
}

// remaining is how long the lease goes on if nobody enters, negative once it has ended; then the
// number of holders, and the term.
func (l *lease) remaining() (left time.Duration, workers int, term time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders > 0 {
		return l.term, l.holders, l.term
	}
	return l.term - time.Since(l.since), 0, l.term
}

// stop ends the lease for good: nothing is signalled any more.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
}
