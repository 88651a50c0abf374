package host

import (
	"context"
	"os"
	"os/user"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
)

// box is one box in memory.
//
// op orders the operations on it (wake, pause, fork, reset, remove and so on) and is held for as
// long as they take, minutes at worst. What only reads (list, show) does not take it. mu guards the
// fields below it and is never held across a wait. Lock order: op, writing, mu; of a parent and its
// fork, the parent's op first.
type box struct {
	op sync.Mutex

	writing sync.Mutex // held from a change of the record until it is on disk, so that the latest one is
	mu      sync.Mutex
	rec     record
	live    place.Place // nil without a machine
	still   place.Place // is live while that stands still in memory
	renewed time.Time   // when its lease last was
}

// record returns a copy of the record. Its maps and slices are shared and must not be written to.
func (b *box) record() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

// place returns the box's place, nil if its life has ended. It may end at any moment, so callers ask
// once and keep the answer.
func (b *box) place() place.Place {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

// frozen is the place that stands still in memory, perhaps an earlier one.
func (b *box) frozen() place.Place {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.still
}

// set changes fields under mu; f must not block.
func (b *box) set(f func(b *box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// change changes the record in memory, then on disk. If writing fails, the box keeps the change and
// the next daemon does not see it, so it is for facts that can be found out again.
func (b *box) change(h home.Home, f func(rec *record)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.set(func(b *box) { f(&b.rec) })
	return writeRecord(h, b.record())
}

// commit writes a record to disk, and only then makes it the box's. It is for what must be durable
// before anything relies on it, such as the directory of a new life. The caller holds op, else a
// change between reading the record and committing it would be lost. A document that was approved
// in between stays.
func (b *box) commit(h home.Home, rec record) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if now := b.record(); now.approvals != rec.approvals {
		rec.Approved, rec.approvals = now.Approved, now.approvals
	}
	if err := writeRecord(h, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	return nil
}

// state derives the state from facts: Running with a live place that does not stand still, Paused with
// one that does or with a complete save, else Stopped. describe adds Waiting for people who look.
func (b *box) state(d disk) agentbox.State {
	rec := b.record()
	switch live := b.place(); {
	case live != nil && live == b.frozen():
		return agentbox.Paused
	case live != nil:
		return agentbox.Running
	}
	// After an error the save may exist. A box that is taken for stopped would start afresh and drop
	// it.
	if kept, err := d.kept(rec); err == nil && kept != place.Whole {
		return agentbox.Stopped
	}
	return agentbox.Paused
}

// stopGrace is how long user processes get to end and the workspace to be synced, where a user waits.
const stopGrace = 5 * time.Second

// end ends the box's life, if it has one: user processes are ended and the workspace is synced within
// stopGrace. Callers hold op. The exception is policyBox.Stop, because a machine with a revoked
// policy must not wait for its turn.
func (b *box) end() error { return b.endWithin(stopGrace) }

func (b *box) endWithin(grace time.Duration) error {
	p := b.place()
	if p == nil {
		return nil
	}
	if err := p.Stop(grace); err != nil {
		return err
	}
	b.ended(p)
	return nil
}

// ended forgets a place that has ended, if it is still the box's. machines.onExit then does not
// record an end that somebody asked for.
func (b *box) ended(p place.Place) {
	b.set(func(b *box) {
		if b.live == p {
			b.live = nil
		}
	})
}

// leaseTime is how long a machine runs when nobody works in it: long enough for a break, too short
// for a day on which the box was forgotten.
const leaseTime = 12 * time.Hour

func newLease() agentbox.Lease {
	return agentbox.Lease{Owner: owner(), Term: leaseTime}
}

// owner is USER@HOST, for people who look at a lease. Nothing is decided by it.
func owner() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		name += "@" + h
	}
	return name
}

// renewEvery is how often use of a box renews its lease. A session renews it by itself, so exec
// need not do it each time.
const renewEvery = time.Minute

func (b *box) renew(ctx context.Context) error {
	leaser, ok := b.place().(place.Leaser)
	if !ok || !b.renewalDue(renewEvery) {
		return nil
	}
	return leaser.Renew(ctx, leaseTime)
}

// renewalDue tells whether the last renewal is longer ago than every, and if so counts this call as
// one. It may say no right after a new supervisor has started, whose lease is new anyway.
func (b *box) renewalDue(every time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.renewed.IsZero() && time.Since(b.renewed) < every {
		return false
	}
	b.renewed = time.Now()
	return true
}
