package fleet

import (
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

const (
	// LeaseTime is how long a worker may be silent.
	LeaseTime = 30 * time.Second
	// MaxLeases is how many workers may lose an attempt before that counts as its own fault.
	MaxLeases = 3
	beatEvery = 2 * time.Second
	// beatLeast is how seldom a worker says that it goes on, for an owner of whom very many run. Builds that
	// do not know it say so three times in LeaseTime.
	beatLeast = 2 * time.Minute
	manyBeats = 3 // in two seconds, of all workers together
	// goneTime is how long a worker may be silent that gossip does not see any more, and that was asked.
	goneTime = LeaseTime / 2
	// callEvery is how often a worker is asked to beat at once.
	callEvery = LeaseTime / 3
)

// Lease is who runs an attempt. Its methods decide without a clock or a network; the zero Lease is an
// attempt that nobody has had.
type Lease struct {
	Fence  uint64          `json:"fence"` // of the present lease, or of the last one
	Worker identity.PeerID `json:"worker,omitzero"`
	Name   string          `json:"name,omitempty"` // of the worker, for people
	Lost   int             `json:"lost,omitempty"` // leases that ended without a result
	// Keeper is the machine to which the owner gave the attempt, to keep it as its own while the owner
	// sleeps; zero for none. It alone may have a lease, which does not expire: the owner takes it back, or it
	// says that it has no such task.
	Keeper identity.PeerID `json:"keeper,omitzero"`
}

// Held tells whether a worker has it.
func (l Lease) Held() bool { return !l.Worker.IsZero() }

// Kept tells whether the keeper has it.
func (l Lease) Kept() bool { return l.Held() && l.Worker == l.Keeper }

// Transfer says who is to keep it, from the end of a present lease on. Zero takes it back: a keeper that
// has it has it no more.
func (l Lease) Transfer(to identity.PeerID) Lease {
	if l.Kept() && to != l.Keeper {
		l, _ = l.End(false)
	}
	l.Keeper = to
	return l
}

// Grant gives it to a worker. The error is Conflict if it has one already: the same worker, too, may
// have restarted, and its earlier self must not deliver beside it.
func (l Lease) Grant(worker identity.PeerID, name string) (Lease, error) {
	if l.Held() || !l.Keeper.IsZero() && worker != l.Keeper {
		return l, agentbox.Errorf(agentbox.Conflict, "another machine has it")
	}
	return Lease{Fence: l.Fence + 1, Worker: worker, Name: name, Lost: l.Lost, Keeper: l.Keeper}, nil
}

// Holds tells whether a worker may speak for the attempt.
func (l Lease) Holds(worker identity.PeerID, fence uint64) bool {
	return l.Held() && l.Worker == worker && l.Fence == fence
}

// End takes it from its worker, who was silent or gave it back. over tells that nobody gets it any
// more.
func (l Lease) End(silent bool) (next Lease, over bool) {
	next = Lease{Fence: l.Fence, Name: l.Name, Lost: l.Lost, Keeper: l.Keeper}
	if silent {
		next.Lost++
	}
	return next, next.Lost >= MaxLeases
}

// Heard is what an owner heard of a worker, all by its own clock.
type Heard struct {
	Last time.Time
	Next time.Duration // after Last the worker is to say the next thing
	Gone time.Time     // since when gossip does not see it; zero while it does
}

// See notes whether gossip sees the worker.
func (h *Heard) See(here bool, now time.Time) {
	switch {
	case here:
		h.Gone = time.Time{}
	case h.Gone.IsZero():
		h.Gone = now
	}
}

// Late tells whether a worker is to be asked whether it goes on.
func (h Heard) Late(now time.Time) bool {
	return now.Sub(h.Last) > callEvery && (!h.Gone.IsZero() || now.Sub(h.Last) > h.Next+callEvery)
}

// Expired tells whether a worker was silent for too long. One that gossip sees, but the owner does not hear,
// is missed as well.
func (h Heard) Expired(now time.Time) bool {
	silent := now.Sub(h.Last)
	return silent > LeaseTime && (silent > h.Next+LeaseTime-beatEvery || !h.Gone.IsZero() && now.Sub(h.Gone) > goneTime)
}

// BeatEvery is how often each worker of an owner is to say that it goes on, of so many.
func BeatEvery(leases int) time.Duration {
	return min(max(beatEvery, time.Duration(leases)*2*time.Second/manyBeats), beatLeast)
}
