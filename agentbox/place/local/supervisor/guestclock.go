package supervisor

import (
	"context"
	"time"
)

// clockEvery is how often the guest's clock is set: hosts sleep, and emulated clocks drift.
const clockEvery = 30 * time.Second

// keepClock sets the guest's clock at intervals until ctx ends. It leaves a frozen guest alone: the
// request would go unanswered, which ends the connection.
func (l *link) keepClock(ctx context.Context, frozen func() bool) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c := l.liveConnection()
		if c == nil || frozen() {
			continue
		}
		if err := c.SetClock(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.log.Warn("cannot set the guest's clock", "error", err)
		}
	}
}
