package supervisor

import (
	"context"
	"runtime/debug"
	"time"

	"agentbox/agentbox/background"
	"agentbox/vmm/unmap"
)

// A supervisor works in bursts: it starts a machine, carries a command, and waits for minutes then.
// There is one for each box, so what a burst took is given back when it is over.
const (
	burstIdle = 300 * time.Millisecond // without a word of the box
	// At most: a box that is used all the time keeps what it needs.
	releaseEvery = time.Second
)

// releaseMemory gives memory back after each burst of work until ctx ends.
func (s *Supervisor) releaseMemory(ctx context.Context) {
	s.meter.touch() // the start was a burst, and the first command follows it at once
	for receive(ctx, s.meter.activity) {
		for q := s.meter.idleFor(); q < burstIdle; q = s.meter.idleFor() {
			if !background.Sleep(ctx, burstIdle-q) {
				return
			}
		}
		debug.FreeOSMemory()
		if err := unmap.Program(); err != nil {
			s.log.Debug("cannot give the program's pages back", "error", err)
		}
		if !background.Sleep(ctx, releaseEvery) {
			return
		}
	}
}

// receive receives from c; false when ctx has ended.
func receive(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}
