package supervisor

import (
	"sync"
	"time"
)

// lease calls expired once when its end has passed. It is enforced here, beside the machine, so that no crash of the
// daemon or of a client leaves a machine running past it.
type lease struct {
	mu      sync.Mutex
	timer   *time.Timer
	ends    time.Time
	stopped bool
}

// check is how often the wall clock is compared: timers do not count the time a laptop sleeps.
const check = 10 * time.Second

func newLease(ends time.Time, expired func()) *lease {
	l := &lease{ends: ends}
	l.mu.Lock() // a lease that is nearly over ticks before its timer is known
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.wait(), func() { l.tick(expired) })
	return l
}

func (l *lease) tick(expired func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case l.over():
		l.stopped = true
		expired()
	default:
		l.timer.Reset(l.wait())
	}
}

func (l *lease) over() bool { return !l.ends.IsZero() && !time.Now().Round(0).Before(l.ends.Round(0)) }

func (l *lease) wait() time.Duration {
	if left := time.Until(l.ends.Round(0)); !l.ends.IsZero() && left < check {
		return max(left, 0)
	}
	return check
}

// extend moves the end, to later or to sooner.
func (l *lease) extend(ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = ends
	if !l.stopped {
		l.timer.Reset(l.wait())
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
}
