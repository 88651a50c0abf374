package daemon

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/idle"
	"agentbox/mesh/identity"
)

func (d *daemon) watcher() idle.Watcher {
	var kept []agentbox.TaskID
	return idle.Watcher{
		Wanted: func() bool { return !d.peers().Self().IsZero() }, Changed: d.fleet.worker.Wake.Notify, Log: d.cfg.Log,
		Sleep: func(ctx context.Context) { kept = d.beforeSleep(ctx) },
		Woke:  func() { d.afterSleep(kept) },
	}
}

// beforeSleep gives back what runs here for others, and has a builder of the team that is there keep
// what waits for machines. It returns what it gave, when all of it is elsewhere or ctx ends.
func (d *daemon) beforeSleep(ctx context.Context) (given []agentbox.TaskID) {
	d.sleeping.Store(true)
	d.fleet.worker.Wake.Notify()
	if keeper, ok := d.onlineBuilder(); ok {
		given = d.fleet.owner.HandOver(keeper)
	}
	for {
		changed := d.changes.Changed()
		running, left := d.fleet.worker.Unsettled(), d.fleet.owner.NotKept(given)
		if running == 0 && len(left) == 0 {
			return given
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.cfg.Log.Warn("this machine sleeps before its tasks are elsewhere", "running", running, "not handed over", left)
			return given
		}
	}
}

// afterSleep takes back what nobody has got. What a builder keeps stays there, until the user takes it
// back (task transfer --back).
func (d *daemon) afterSleep(given []agentbox.TaskID) {
	d.sleeping.Store(false)
	for _, id := range d.fleet.owner.NotKept(given) {
		if err := d.fleet.owner.Transfer(id, identity.PeerID{}); err != nil {
			d.cfg.Log.Warn("cannot take back a task", "task", id, "error", err)
		}
	}
	d.fleet.worker.Wake.Notify()
}

// onlineBuilder is a builder of the team that can be reached, if there is one beside this machine.
func (d *daemon) onlineBuilder() (identity.PeerID, bool) {
	m := d.shares.mesh
	if m == nil {
		return identity.PeerID{}, false
	}
	online := m.OnlinePeers()
	i := slices.IndexFunc(online, func(p identity.PeerID) bool { return p != m.Self() && m.IsBuilder(p) })
	if i < 0 {
		return identity.PeerID{}, false
	}
	return online[i], true
}
