package supervisor

import (
	"context"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/policy"
	"agentbox/vmm"
)

func (s *Supervisor) noteLimit(which agentbox.Limit) {
	s.log.Info("limit reached", "limit", which)
	s.guard.record(policy.Entry{Kind: policy.KindLimit, Reason: which.String()})
}

// watchTime ends a run that has reached a limit of time, CPU or cost, and pauses any other box. It
// returns when ctx ends.
func (s *Supervisor) watchTime(ctx context.Context) {
	for {
		which := s.meter.run(ctx)
		switch {
		case which.IsZero():
			return
		case !s.meter.pausesAtLimit():
			s.noteLimit(which)
			s.flushEvidence(ctx)
			s.end(agentbox.End{Cause: agentbox.EndLimit, Limit: which})
			return
		case s.pauseAtLimit(ctx, which, func() bool { return !s.meter.exceeded().IsZero() }):
			return
		}
	}
}

// pauseAtLimit pauses the box at a limit; a user may resume it. If that fails it ends the machine.
// It returns false if the limit no longer holds, because somebody entered meanwhile: the box goes
// on, and is still to be watched. still is asked when the operation gets its turn: another one may
// have taken minutes.
func (s *Supervisor) pauseAtLimit(ctx context.Context, which agentbox.Limit, still func() bool) bool {
	s.op.Lock()
	defer s.op.Unlock()
	if ctx.Err() != nil {
		return true // it ends anyway
	}
	if !s.meter.pausesAtLimit() { // what its logs say goes with its machine
		s.flushEvidence(ctx)
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

// pauseWhile saves the machine, and returns true once only its end is left to do. It returns false,
// and the machine goes on, when still no longer holds, before or after saving. So a user who enters
// while the box is being saved waits for that, and then has it. The caller holds op.
func (s *Supervisor) pauseWhile(ctx context.Context, still func() bool) (paused bool, err error) {
	if !still() {
		return false, nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.saveFrozen(ctx, s.names.Saved(), vmm.InPlace); err != nil {
		return false, err
	}
	if still() || !s.dropSave() {
		return true, nil
	}
	return false, s.thaw(ctx)
}

// dropSave drops the saved state of a machine that is to go on, and tells whether it could. The
// state does not fit the disks of a machine that has gone on, so it loses its name first. If it
// keeps it the box has to stay paused. The next resume or daemon removes what is left here.
func (s *Supervisor) dropSave() bool {
	if err := setAside(s.names, durable.SyncDir); err != nil {
		s.log.Error("box is paused although it is in use, because its saved state cannot be dropped", "error", err)
		return false
	}
	if err := os.RemoveAll(s.names.Resuming()); err != nil {
		s.log.Warn("cannot remove a saved state", "error", err)
	}
	return true
}
