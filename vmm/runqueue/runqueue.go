// Package runqueue gives machines time by what they had of it: a deadline stands still while a
// machine waits for a processor. An emulated machine beside fifty busy processes takes minutes for
// what it does in seconds alone, and is as healthy.
package runqueue

import (
	"context"
	"time"

	"github.com/prometheus/procfs"
)

// steps is how often, until its deadline, a machine is asked for how long it has waited.
const steps = 10

// WithTimeout is context.WithTimeout, but for the time that the processes wait for a processor: of
// each tenth of d as much does not count as the thread waited that waited longest. pids lists them,
// and may change. Where Linux does not tell (proc(5), schedstat), all time counts. The cause of the
// context's end is then context.DeadlineExceeded, its error context.Canceled.
func WithTimeout(ctx context.Context, d time.Duration, pids func() []int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		step := d / steps
		var before waits
		for left := d; left > 0; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(step):
			}
			now := measure(pids())
			left -= step - min(now.since(before), step)
			before = now
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// waits is how long each thread has waited since it began.
type waits map[int]time.Duration

// since is the longest that a thread of both has waited in between.
func (w waits) since(before waits) time.Duration {
	var longest time.Duration
	for thread, waited := range w {
		if earlier, known := before[thread]; known {
			longest = max(longest, waited-earlier)
		}
	}
	return longest
}

// measure asks Linux for the threads of processes. Those that are gone, or whose times cannot be
// read, are left out.
func measure(pids []int) waits {
	w := waits{}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return w
	}
	for _, pid := range pids {
		threads, err := fs.AllThreads(pid)
		if err != nil {
			continue
		}
		for _, thread := range threads {
			if stat, err := thread.Schedstat(); err == nil {
				w[thread.PID] = time.Duration(stat.WaitingNanoseconds)
			}
		}
	}
	return w
}
