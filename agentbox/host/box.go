package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/supervisors"
)

// box is one box in memory.
//
// op orders the operations on it (wake, pause, fork, reset, remove, ...) and is held for as long as
// they take, minutes at worst; what only looks (list, show) does not take it. mu guards the fields
// below it, is held for a moment and never across a wait. op is taken first where both are. Of two
// boxes, parent and fork, the parent's op is taken first.
type box struct {
	op sync.Mutex

	writing sync.Mutex // held while the record is changed and written, so that the latest is on disk; before mu
	mu      sync.Mutex
	rec     record
	sup     *supervisors.Supervisor // nil without a machine
	renewed time.Time               // when its lease last was
}

// record is a copy of the record as it is now. Its maps and slices are shared and must not be
// written to.
func (b *box) record() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

// live is the supervisor of the box's machine, nil when it has none. It may end at any moment, so
// callers keep the answer and do not ask twice.
func (b *box) live() *supervisors.Supervisor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sup
}

// set changes fields under mu; f must not wait.
func (b *box) set(f func(b *box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// change changes the box's record in memory, and then writes it down. If writing fails the box goes
// on as changed, and the next daemon knows the old one: for facts that are found out again.
func (b *box) change(h home.Home, f func(rec *record)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.set(func(b *box) { f(&b.rec) })
	return writeRecord(h, b.record())
}

// commit writes a record down, and only then makes it the box's: for what must not be believed
// before it is durable, such as the directory of a new life. The caller holds op, else a change
// between reading the record and committing it would be lost.
func (b *box) commit(h home.Home, rec record) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := writeRecord(h, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	return nil
}

// state is derived from facts: a supervisor that lives, or a directory with a complete save. It is
// one of Running, Paused and Stopped; Waiting is what describe adds for those that look.
func (b *box) state(h home.Home) agentbox.State {
	rec := b.record()
	if b.live() != nil {
		return agentbox.Running
	}
	// What cannot be looked at may be there: a box that was taken for stopped would begin afresh,
	// and drop it.
	if _, err := os.Stat(rec.names(h).Saved()); errors.Is(err, fs.ErrNotExist) {
		return agentbox.Stopped
	}
	return agentbox.Paused
}

// end ends the box's machine if it has one, politely: user processes end and the workspace is
// synced, within supervisors.Grace. Callers hold op, but for a policy that must not go on
// (policedBox), which does not wait for its turn.
func (b *box) end() error {
	s := b.live()
	if err := s.Stop(supervisors.Grace); err != nil {
		return err
	}
	b.ended(s)
	return nil
}

// ended forgets a machine that has ended, if it still is the box's. gone then finds it forgotten,
// and does not record an end that somebody asked for.
func (b *box) ended(s *supervisors.Supervisor) {
	b.set(func(b *box) {
		if b.sup == s {
			b.sup = nil
		}
	})
}

// leaseTime is for how long a machine runs when nobody works in it: over a break, and not over a
// day on which the box was forgotten.
const leaseTime = 12 * time.Hour

// newLease is the lease of a box whose machine starts.
func newLease() agentbox.Lease {
	return agentbox.Lease{Owner: owner(), Term: leaseTime}
}

// owner is USER@HOST for people who look at a lease. Nothing is decided by it.
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

// renewEvery is how often use of a box renews its lease: exec should cost no more calls than it
// needs, and its session renews it itself.
const renewEvery = time.Minute

// renew lets the lease begin anew; the supervisor enforces it.
func (b *box) renew(ctx context.Context) error {
	s := b.live()
	if s == nil || !b.renews(renewEvery) {
		return nil
	}
	_, err := supervisors.Ask(ctx, s, api.SupervisorLease, api.LeaseRequest{Term: leaseTime})
	return err
}

// renews tells whether the last renewal is longer ago than every, and counts this as one if it is.
// Between supervisors it may say no: a new one has a new lease.
func (b *box) renews(every time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.renewed.IsZero() && time.Since(b.renewed) < every {
		return false
	}
	b.renewed = time.Now()
	return true
}
