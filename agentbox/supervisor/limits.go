package supervisor

import (
	"context"
	"os"

	"agentbox/agentbox"
	"agentbox/policy"
	"agentbox/vmm"
)

// noteLimit writes down that a limit is reached, in the log of the supervisor and in the box's
// audit log.
func (s *Supervisor) noteLimit(which agentbox.Limit) {
	s.log.Info("limit reached", "limit", which)
	s.guard.record(policy.Entry{Kind: policy.KindLimit, Reason: which.String()})
}

// watchTime ends a run at its limits of time and CPU, and pauses any other box. It ends with ctx.
func (s *Supervisor) watchTime(ctx context.Context) {
	for {
		which := s.meter.run(ctx)
		switch {
		case which.IsZero():
			return
		case !s.meter.pauses():
			s.noteLimit(which)
			s.bringUpToDate(ctx)
			s.end(agentbox.End{Cause: agentbox.EndLimit, Limit: which})
			return
		case s.pauseAt(ctx, which, func() bool { return !s.meter.over().IsZero() }):
			return
		}
	}
}

// pauseAt pauses the box at a limit; a user may resume it. Where that cannot be done its machine
// ends. It tells whether the box is no more to be watched: one that somebody entered meanwhile, so
// that the limit is not reached still, goes on. The reason is looked at again when the operation
// has its turn: another may have taken minutes.
func (s *Supervisor) pauseAt(ctx context.Context, which agentbox.Limit, still func() bool) bool {
	s.op.Lock()
	defer s.op.Unlock()
	if ctx.Err() != nil {
		return true // it ends anyway
	}
	if !s.meter.pauses() { // what its logs say goes with its machine
		s.bringUpToDate(ctx)
	}
	paused, err := s.pauseWhile(ctx, still)
	if err == nil && !paused {
		return false
	}
	if err != nil {
		s.log.Warn("cannot pause a box at its limit", "limit", which, "error", err)
	}
	s.noteLimit(which)
	s.end(agentbox.End{Cause: agentbox.EndLimit, Limit: which})
	return true
}

// pauseWhile saves the machine, which then stands still and only has to end, and tells whether it
// has. It does not, and the machine goes on, when the reason no longer holds, before or after it
// was saved. The caller holds op. So a user who comes while the box is being saved waits for that,
// and has it then.
func (s *Supervisor) pauseWhile(ctx context.Context, still func() bool) (paused bool, err error) {
	if !still() {
		return false, nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.saveFrozen(ctx, s.names.Saved(), vmm.InPlace); err != nil {
		return false, err
	}
	if still() {
		return true, nil
	}
	// What is saved goes first: it does not fit the disks of a machine that has gone on.
	if err := os.RemoveAll(s.names.Saved()); err != nil {
		return false, err
	}
	return false, s.goOn(ctx)
}
