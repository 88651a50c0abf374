package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// returnEvery is how often an idle daemon gives memory back to the machine.
const returnEvery = 15 * time.Second

// returnMemory collects garbage and gives it back while nothing else makes the collector run. The
// index of the store keeps a table of 20 MB for what is written next, most of it never touched. The
// collector counts it, so that as much garbage again may gather first: an idle daemon that hears a
// few gossip packets a second would hold 20 MB of it.
func returnMemory(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := collections(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := collections(); now != last {
			last = now // it is at work
			continue
		}
		debug.FreeOSMemory()
		last = collections()
	}
}

// collections is how often the collector has run.
func collections() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
