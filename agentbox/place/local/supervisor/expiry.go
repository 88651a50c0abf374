package supervisor

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/vmm"
)

// repauseEvery is how long to wait before the next try to pause a box whose lease has ended.
const repauseEvery = time.Minute

// watchLease pauses the box when its lease has ended. A machine that is not a box by then ends
// instead: one that waits in the pool, or that never started. So does a run, to which nobody comes
// back. It returns when ctx ends.
func (s *Supervisor) watchLease(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lease.ended:
		}
		if !s.isStarted() || s.atLeaseEnd(ctx) {
			s.end(agentbox.End{Cause: agentbox.EndLease}) // the first cause counts
			return
		}
	}
}

// isStarted tells whether the machine answers: not while it starts, nor if it could not.
func (s *Supervisor) isStarted() bool {
	select {
	case <-s.started:
		return s.startErr == nil
	default:
		return false
	}
}

// atLeaseEnd pauses the box and tells whether its machine is to end. A box that cannot be paused,
// for want of disk space say, goes on for as long as its lease was, and is tried again meanwhile.
// Then it is stopped, with the workspace in good order: no machine runs for ever with nobody. One of
// a kind that cannot be saved is stopped at once.
// Somebody who enters meanwhile keeps the box from being paused, even while it is being saved.
func (s *Supervisor) atLeaseEnd(ctx context.Context) (done bool) {
	s.op.Lock()
	defer s.op.Unlock()
	switch {
	case ctx.Err() != nil:
		return true
	case !s.lease.expired(), s.still.Load(): // renewed while another operation was under way, as by an attach; or with whoever froze it
		return false
	case !s.attached.Load() || !s.meter.pausesAtLimit():
		return true
	}
	paused, err := s.pauseWhile(ctx, s.lease.expired)
	if err == nil {
		s.pauseErr.Store(nil)
		if paused {
			_, _, term := s.lease.remaining()
			s.end(agentbox.End{Cause: agentbox.EndLease, Term: term})
		}
		return paused
	}
	why := agentbox.AsError(err).Message
	left, workers, term := s.lease.remaining()
	if workers > 0 || left > 0 {
		return false
	}
	s.log.Warn("cannot pause a box whose lease has ended", "error", err)
	if _, savable := s.driver.(vmm.Snapshotter); savable && -left < term {
		s.pauseErr.Store(&why)
		s.lease.retry(min(repauseEvery, max(term+left, time.Millisecond)))
		return false
	}
	s.detach(context.WithoutCancel(ctx), signalGrace)
	s.end(agentbox.End{Cause: agentbox.EndLease, Detail: why})
	return true
}

// leaseStatus is the lease as a person sees it. The reason why it could not be paused is left out
// while somebody works in the box.
func (s *Supervisor) leaseStatus() place.Lease {
	left, workers, term := s.lease.remaining()
	st := place.Lease{Left: max(left, 0), Term: term, Holders: workers}
	if why := s.pauseErr.Load(); why != nil && workers == 0 {
		st.PauseError = *why
	}
	return st
}
