package team

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// Durations of a claim.
const (
	// If the machine that holds a claim is switched off, the claim is not renewed and holds the
	// others up for claimTTL. The holder renews it well before that. Changes of a catalogue are
	// announced at once, so claimPoll only covers announcements that were missed.
	claimTTL   = 30 * time.Second
	claimRenew = 10 * time.Second
	claimPoll  = time.Second
)

// MakeOnce gets a result from the team, or makes it here, while no other machine of the team makes
// the same. Each turn of its loop does the first of these that applies:
//
//  1. get finds the result of another machine: done. An error other than NotFound is shown to the
//     user, and the result is made here.
//  2. There is no team, or the claim cannot be written: make it.
//  3. Nobody else holds the claim: take it, and make the result. If a machine that claimed it at the
//     same time takes precedence, begin again.
//  4. Wait until the holder's catalogue changes. A holder that disappears loses the claim.
//
// It calls make at most once, and get often. report tells the user what it waits for. key names the
// result and is visible to the whole team.
func (t *Team) MakeOnce(ctx context.Context, key string, report func(string), get, make func(ctx context.Context) error) error {
	w := makeOnceCall{key, report, get, make}
	waited := identity.PeerID{}
	for {
		// Before any claim, since the result has usually existed for a long time.
		if missing, err := w.fetch(ctx); !missing {
			return err
		}
		m, c := t.catalogues()
		if c == nil {
			return make(ctx)
		}
		// Subscribe before looking at the claim, so that no change in between is missed.
		changed := t.nextChange()
		holder, ours, err := claim(m, c, key)
		switch {
		case err != nil:
			t.Log.Warn("team: cannot say that something is being made", "key", key, "error", err)
			return make(ctx)
		case ours && !m.IsBuilder(m.Self()): // nobody waits for what we make, so there is nothing to claim
			return w.fetchOrMake(ctx)
		case ours:
			if lost, err := t.makeClaimed(ctx, m, c, w); !lost {
				return err
			}
			continue
		case holder != waited:
			waited = holder
			report(t.memberName(holder) + " is making it; waiting for that")
		}
		select {
		case <-changed:
			if !background.Sleep(ctx, debounce) { // the others may change constantly
				return context.Cause(ctx)
			}
		case <-time.After(claimPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// makeOnceCall holds the arguments of one call of MakeOnce.
type makeOnceCall struct {
	key       string
	report    func(string)
	get, make func(ctx context.Context) error
}

// fetch gets the result of another machine. missing reports whether there is none. If there is one
// that cannot be fetched, fetch shows the error to the user and makes the result here.
func (m makeOnceCall) fetch(ctx context.Context) (missing bool, err error) {
	err = m.get(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return false, err
	case agentbox.CodeOf(err) == agentbox.NotFound:
		return true, nil
	}
	m.report(err.Error())
	return false, m.make(ctx)
}

// fetchOrMake is called by the machine whose turn it is. It fetches first, because the previous
// holder of the claim may have finished since we last looked.
func (m makeOnceCall) fetchOrMake(ctx context.Context) error {
	if missing, err := m.fetch(ctx); !missing {
		return err
	}
	return m.make(ctx)
}

// claim claims key for this machine, but only if the others would use the result: nobody uses the
// results of a member that is not a builder. If another machine holds the claim, holder is set.
func claim(m *mesh.Mesh, c *catalogue.Store, key string) (holder identity.PeerID, ours bool, err error) {
	if m.IsBuilder(m.Self()) {
		return c.TakeClaim(key, claimTTL)
	}
	holder, held := c.Holder(key)
	return holder, !held || holder == m.Self(), nil
}

// makeClaimed makes what we claimed, and renews the claim meanwhile. lost reports whether another
// machine claimed it at the same time and takes precedence. The context of make is cancelled when
// the claim is lost, but what make has finished by then counts.
func (t *Team) makeClaimed(ctx context.Context, m *mesh.Mesh, c *catalogue.Store, w makeOnceCall) (lost bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := make(chan error, 1)
	go func() { made <- w.fetchOrMake(ctx) }() // received below in every case
	look := time.NewTicker(claimPoll)
	defer look.Stop()
	renewed := time.Now()
	drop := func() {
		if err := c.DropClaim(w.key); err != nil {
			t.Log.Warn("team: cannot say that something is made", "key", w.key, "error", err)
		}
	}
	for {
		select {
		case err := <-made:
			// Offer the result before the claim ends. Otherwise a machine that is waiting would
			// start to make it.
			if offerErr := t.offer(context.WithoutCancel(ctx)); offerErr != nil {
				t.Log.Warn("team: a new result cannot be offered", "key", w.key, "error", offerErr)
			}
			drop()
			return false, err
		case <-look.C:
		}
		// Two machines claimed it before they had heard of each other. The catalogue's rule decides
		// which one continues.
		if holder, ok := c.Holder(w.key); ok && holder != m.Self() {
			cancel()
			drop()
			if err := <-made; err == nil {
				return false, nil // it had practically been made
			}
			return true, nil
		}
		if time.Since(renewed) > claimRenew {
			renewed = time.Now()
			if _, _, err := c.TakeClaim(w.key, claimTTL); err != nil {
				t.Log.Warn("team: cannot say that something is still being made", "key", w.key, "error", err)
			}
		}
	}
}
