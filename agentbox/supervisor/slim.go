package supervisor

import (
	"context"
	"runtime/debug"
	"time"

	"agentbox/agentbox/background"
)

// A supervisor works in bursts: it starts a machine, carries a command, and waits for minutes then.
// There is one for each box, so what a burst took is given back when it is over.
const (
	burstOver = 300 * time.Millisecond // without a word of the box
	// At most: a box that is used all the time keeps what it needs.
	slimEvery = time.Second
)

// slim gives memory back after each burst of work until ctx ends.
func (s *Supervisor) slim(ctx context.Context) {
	s.meter.touch() // the start was a burst, and the first command follows it at once
	for wait(ctx, s.meter.activity) {
		for q := s.meter.idleFor(); q < burstOver; q = s.meter.idleFor() {
			if !background.Sleep(ctx, burstOver-q) {
				return
			}
		}
		debug.FreeOSMemory()
		if err := forgetProgram(); err != nil {
			s.log.Debug("cannot give the program's pages back", "error", err)
		}
		if !background.Sleep(ctx, slimEvery) {
			return
		}
	}
}

// wait receives from c; false when ctx has ended.
func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}
