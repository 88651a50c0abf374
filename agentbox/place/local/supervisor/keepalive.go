package supervisor

import (
	"context"
	"time"

	"agentbox/agentbox/background"
	"agentbox/agentbox/environment"
)

// How often the guest is asked for a sign of life, and how long it may take: an emulated machine
// under load is slow, and a command that hangs for two minutes before the truth is told beats one
// that is cut off while it works.
const (
	keepAliveEvery   = 15 * time.Second
	keepAliveTimeout = 60 * time.Second
)

// keepAlive drops the connection to a guest that has stopped answering, so that no command waits
// for it for ever. The next use greets the guest anew.
func (s *Supervisor) keepAlive(ctx context.Context) {
	pulse := environment.KeepAliveOptions{Interval: keepAliveEvery, Timeout: keepAliveTimeout, Suspended: s.frozen}
	for ok := ctx.Err() == nil; ok; ok = background.Sleep(ctx, keepAliveEvery) {
		if c := s.link.liveConnection(); c != nil {
			if err := environment.KeepAlive(ctx, c.SSH(), pulse); err != nil {
				s.log.Warn("gave up the connection to a silent guest", "error", err)
			}
		}
	}
}

// frozen tells whether the machine may be stopped: it waits in the pool, for its image or for its user, or an
// operation is under way. It does not wait for that operation; a guest that may be stopped is
// simply not asked.
func (s *Supervisor) frozen() bool {
	if s.stalled() || s.still.Load() {
		return true
	}
	if !s.op.TryLock() {
		return true
	}
	defer s.op.Unlock()
	return !s.attached.Load()
}
