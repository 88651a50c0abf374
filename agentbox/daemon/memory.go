package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// releaseEvery is how often a daemon returns memory to the machine in which the collector ran less than
// busyCycles times by itself.
const (
	releaseEvery = 15 * time.Second
	busyCycles   = 15
)

// releaseMemory collects garbage and returns memory while nothing else makes the collector run. The
// store's index keeps a write buffer of 20 MB, most of it never touched. The collector counts it as
// live, and so lets as much garbage gather before it runs: an idle daemon that receives a few
// gossip packets a second would hold 20 MB of garbage, and one that has just read 10,000 tasks 50 MB.
func releaseMemory(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := gcCount(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if gcCount()-last <= busyCycles {
			debug.FreeOSMemory()
		}
		last = gcCount()
	}
}

func gcCount() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
