package fleet

import (
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

// Transfer gives the attempt of a task that waits for a machine, or has one, to a keeper; zero takes it
// back. The error is Conflict for a task that does neither.
func (o *Owner) Transfer(t agentbox.TaskID, to identity.PeerID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, at := range o.open {
		if key.task != t || at.finished || at.finishing {
			continue
		}
		next := at.lease.Transfer(to)
		if err := durable.WriteJSON(filepath.Join(at.dir, LeaseFile), next, 0o600); err != nil {
			return err
		}
		if at.lease.Held() && !next.Held() {
			o.Call(at.lease.Worker, t, key.attempt)
		}
		at.lease, at.since = next, time.Now()
		go o.Changed()
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "task %s neither waits for a machine of the team nor has one", t).WithHint("agentbox task show %s says what it does", t)
}

// Followed is closed when one more attempt waits for a machine, or has one, than now.
func (o *Owner) Followed() <-chan struct{} { return o.followed.Changed() }

// keepFor completes what a keeper gets of a task: it looks for machines itself, and lends what it
// borrows. What is for the keeper itself runs there.
func keepFor(t agentbox.Task, keeper identity.PeerID, spec *agentbox.TaskSpec) {
	spec.Secrets = t.Secrets
	if t.Where != keeper.String() {
		spec.Where = t.Where
	}
}

// maxKept is how many tasks of others a builder keeps.
const maxKept = 1000

// chooseKept decides which offer to keep comes first; false for none.
func chooseKept(self identity.PeerID, not NotNow, offers []Offer, now time.Time) (Offer, bool) {
	i := slices.IndexFunc(offers, func(o Offer) bool {
		return o.Keep && o.Where == self.String() && !not.leaves(o, now)
	})
	if i < 0 {
		return Offer{}, false
	}
	return offers[i], true
}

// HandOver gives a keeper what waits for machines, or has one, of this machine's own tasks, and returns
// which those are.
func (o *Owner) HandOver(to identity.PeerID) (all []agentbox.TaskID) {
	o.mu.Lock()
	for key, at := range o.open {
		if at.task.For == nil && at.lease.Keeper.IsZero() && !at.cancelled {
			all = append(all, key.task)
		}
	}
	o.mu.Unlock()
	return slices.DeleteFunc(all, func(id agentbox.TaskID) bool { return o.Transfer(id, to) != nil })
}

// NotKept are those of some tasks that their keeper does not have yet, or not all of.
func (o *Owner) NotKept(tasks []agentbox.TaskID) (all []agentbox.TaskID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, at := range o.open {
		waits := !at.lease.Held() || at.lease.Kept() && !at.sent
		if slices.Contains(tasks, key.task) && waits && !at.finished {
			all = append(all, key.task)
		}
	}
	return all
}
