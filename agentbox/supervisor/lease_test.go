package supervisor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseEndsOnceAndWhenItSays(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		first  time.Duration                // from now; 0 is no end
		change func(t *testing.T, l *lease) // what happens meanwhile
		want   time.Duration                // from the beginning; 0 is never
	}{
		"as made":                {hour, func(*testing.T, *lease) {}, hour},
		"already over":           {-hour, func(*testing.T, *lease) {}, time.Nanosecond},
		"without an end":         {0, func(*testing.T, *lease) {}, 0},
		"moved to later":         {hour, after(hour/2, func(l *lease) { l.extend(time.Now().Add(hour)) }), hour + hour/2},
		"moved to sooner":        {hour, after(time.Minute, func(l *lease) { l.extend(time.Now().Add(time.Second)) }), time.Minute + time.Second},
		"given an end":           {0, after(time.Minute, func(l *lease) { l.extend(time.Now().Add(time.Second)) }), time.Minute + time.Second},
		"moved into the past":    {hour, after(time.Minute, func(l *lease) { l.extend(time.Now().Add(-hour)) }), time.Minute},
		"stopped":                {hour, after(time.Minute, func(l *lease) { l.stop() }), 0},
		"stopped, then extended": {hour, after(time.Minute, func(l *lease) { l.stop(); l.extend(time.Now().Add(time.Second)) }), 0},
		"extended too late":      {time.Minute, after(hour, func(l *lease) { l.extend(time.Now().Add(time.Second)) }), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				var at time.Duration
				begin := time.Now()
				ends := time.Time{}
				if c.first != 0 {
					ends = begin.Add(c.first)
				}
				l := newLease(ends, func() { calls.Add(1); at = time.Since(begin) })
				c.change(t, l)
				time.Sleep(3 * hour)
				l.stop()
				synctest.Wait()
				want := int32(1)
				if c.want == 0 {
					want = 0
				}
				if got := calls.Load(); got != want || at > c.want || at < c.want-time.Nanosecond {
					t.Errorf("expired %d times, at %s; want it at %s", got, at, c.want)
				}
			})
		})
	}
}

func after(d time.Duration, f func(*lease)) func(*testing.T, *lease) {
	return func(_ *testing.T, l *lease) {
		time.Sleep(d)
		f(l)
	}
}
