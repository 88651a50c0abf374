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

// box is one box in memory. op orders operations on it; mu guards the fields and is never held
// across a wait.
type box struct {
	op sync.Mutex

	mu      sync.Mutex
	rec     record
	sup     *supervisors.Supervisor // nil without a machine
	renewed time.Time               // when its lease last was
}

func (b *box) record() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

func (b *box) live() *supervisors.Supervisor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sup
}

func (b *box) set(f func(b *box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// change changes the box's record, and then writes it down.
func (b *box) change(h home.Home, f func(rec *record)) error {
	b.set(func(b *box) { f(&b.rec) })
	return writeRecord(h, b.record())
}

// commit writes a record down, and then makes it the box's.
func (b *box) commit(h home.Home, rec record) error {
	if err := writeRecord(h, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	return nil
}

// state is derived from facts.
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

// end ends the box's machine if it has one, its workspace synced.
func (b *box) end() error {
	s := b.live()
	if err := s.Stop(supervisors.Grace); err != nil {
		return err
	}
	b.ended(s)
	return nil
}

// ended forgets a machine that has ended, if it still is the box's.
func (b *box) ended(s *supervisors.Supervisor) {
	b.set(func(b *box) {
		if b.sup == s {
			b.sup = nil
		}
	})
}

// leaseTime is for how long a machine runs when nobody works in it.
const leaseTime = 12 * time.Hour

// newLease is the lease of a box whose machine starts.
func newLease() agentbox.Lease {
	return agentbox.Lease{Owner: owner(), Term: leaseTime}
}

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
	_, err := supervisors.Ask(ctx, s, api.SupervisorLease, api.LeaseRequest{Term: leaseTime, Expires: time.Now().Add(leaseTime)})
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
