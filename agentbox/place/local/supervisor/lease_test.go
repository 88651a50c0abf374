package supervisor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseEnds(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		change func(l *lease)
		want   []time.Duration // from the beginning
	}{
		"as made":                   {func(*lease) {}, []time.Duration{hour}},
		"renewed":                   {func(l *lease) { time.Sleep(hour / 2); l.renew(hour) }, []time.Duration{hour + hour/2}},
		"renewed, shorter":          {func(l *lease) { time.Sleep(time.Minute); l.renew(time.Second) }, []time.Duration{time.Minute + time.Second}},
		"stopped":                   {func(l *lease) { time.Sleep(time.Minute); l.stop() }, nil},
		"stopped, then renewed":     {func(l *lease) { l.stop(); l.renew(time.Second) }, nil},
		"ended, then renewed":       {func(l *lease) { time.Sleep(hour + time.Second); l.renew(time.Minute) }, []time.Duration{hour, hour + time.Second + time.Minute}},
		"worked in for a long time": {func(l *lease) { done := l.hold(); time.Sleep(20 * hour); done() }, []time.Duration{21 * hour}},
		"worked in for ever":        {func(l *lease) { l.hold() }, nil},
		"renewed while worked in":   {func(l *lease) { done := l.hold(); l.renew(time.Second); time.Sleep(hour); done() }, []time.Duration{hour + time.Second}},
		"left twice by one of two": {func(l *lease) {
			one, other := l.hold(), l.hold()
			time.Sleep(hour)
			one()
			one()
			time.Sleep(5 * hour)
			other()
		}, []time.Duration{7 * hour}},
		"tried again":                {func(l *lease) { time.Sleep(hour + time.Second); l.retry(time.Minute) }, []time.Duration{hour, hour + time.Second + time.Minute}},
		"renewed before it is tried": {func(l *lease) { time.Sleep(hour + time.Second); l.renew(hour); l.retry(time.Minute) }, []time.Duration{hour, 2*hour + time.Second}},
		"entered before it is tried": {func(l *lease) { time.Sleep(hour + time.Second); l.retry(time.Minute); l.hold() }, []time.Duration{hour}},
		"entered when it has ended":  {func(l *lease) { time.Sleep(hour + time.Second); l.hold() }, []time.Duration{hour}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := newLease(hour)
				var at []time.Duration
				done := make(chan struct{})
				go func() {
					for {
						select {
						case <-l.ended:
							at = append(at, time.Since(begin))
						case <-done:
							return
						}
					}
				}()
				c.change(l)
				time.Sleep(100 * hour)
				l.stop()
				close(done)
				synctest.Wait()
				if len(at) != len(c.want) {
					t.Fatalf("ended at %s, want %s", at, c.want)
				}
				for i, want := range c.want {
					if at[i] != want {
						t.Errorf("ended at %s, want %s", at, c.want)
					}
				}
			})
		})
	}
}

// Who has come in since the lease ended is not put out: expired is asked before and after a box is
// saved.
func TestHoldAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Hour)
		defer l.stop()
		if left, working, term := l.remaining(); l.expired() || left != time.Hour || working != 0 || term != time.Hour {
			t.Errorf("%s, %d, %s", left, working, term)
		}
		time.Sleep(2 * time.Hour)
		if left, _, _ := l.remaining(); !l.expired() || left != -time.Hour {
			t.Errorf("%s left, over %v", left, l.expired())
		}
		done := l.hold()
		if left, working, _ := l.remaining(); l.expired() || left != time.Hour || working != 1 {
			t.Errorf("%s left, %d, over %v", left, working, l.expired())
		}
		done()
		if l.expired() {
			t.Error("over as soon as the last has gone")
		}
	})
}

// The time of a lease is the monotonic clock's: neither sleep nor a clock that is set has a say in
// it.
func TestLeaseUsesMonotonicClock(t *testing.T) {
	l := newLease(time.Hour)
	defer l.stop()
	for _, when := range []func(){func() {}, func() { l.renew(time.Hour) }, func() { l.hold()() }} {
		when()
		if !strings.Contains(l.since.String(), " m=") {
			t.Errorf("it began at %s, a time of the wall clock", l.since)
		}
	}
}
