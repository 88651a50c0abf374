package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// releaseEvery is how often an idle daemon returns memory to the machine.
const releaseEvery = 15 * time.Second

// releaseMemory collects garbage and returns memory while nothing else makes the collector run. The
// store's index keeps a write buffer of 20 MB, most of it never touched. The collector counts it as
// live, and so lets as much garbage gather before it runs: an idle daemon that receives a few
// gossip packets a second would hold 20 MB of garbage.
func releaseMemory(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := gcCount(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := gcCount(); now != last {
			last = now // the collector is already running by itself
			continue
		}
		debug.FreeOSMemory()
		last = gcCount()
	}
}

func gcCount() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
