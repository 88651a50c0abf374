package runqueue

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// A machine that has its processor, one that has ended and one that nobody knows get their time and
// no more.
func TestTimePasses(t *testing.T) {
	for name, pids := range map[string][]int{"rests": {os.Getppid()}, "gone": {1 << 30}, "unknown": nil} {
		ctx, cancel := WithTimeout(t.Context(), 50*time.Millisecond, func() []int { return pids })
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
		cancel()
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := WithTimeout(t.Context(), time.Hour, func() []int { return nil })
	cancel()
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Error("its time is over")
	}
}

// Only what threads waited meanwhile counts, and of those that waited at once, the longest.
func TestSince(t *testing.T) {
	before := waits{1: time.Second, 2: time.Minute}
	now := waits{1: 4 * time.Second, 2: time.Minute + time.Second, 3: time.Hour}
	if d := now.since(before); d != 3*time.Second {
		t.Error(d)
	}
	if d := now.since(nil); d != 0 {
		t.Errorf("of a first measurement: %v", d)
	}
}

// The times are those of Linux: a thread that ran has an entry, which never shrinks.
func TestMeasure(t *testing.T) {
	first := measure([]int{os.Getpid()})
	if len(first) == 0 {
		t.Skip("this kernel does not tell how long threads wait")
	}
	for thread, waited := range measure([]int{os.Getpid()}) {
		if waited < first[thread] {
			t.Errorf("thread %d waited %v, then %v", thread, first[thread], waited)
		}
	}
}
