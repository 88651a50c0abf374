package team

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// Times of a claim.
const (
	// A claim that is not renewed, of a machine that was switched off say, holds the others up for
	// claimTTL; it is renewed well before that. A change of a catalogue is told at once, so
	// claimLook is only for what is missed.
	claimTTL   = 30 * time.Second
	claimRenew = 10 * time.Second
	claimLook  = time.Second
)

// Once has one machine of the team make something at a time. get gets what another one made,
// NotFound while nobody has; make makes it here. say tells a person what is being waited for. Where
// a machine that said it would make it is gone or takes too long, another one does. Without a team
// it is make. make is called once at most, get often. Errors of get but NotFound are told to the
// person, and then it is made here. key names what is made, and is seen by the whole team.
func (t *Team) Once(ctx context.Context, key string, say func(string), get, make func(ctx context.Context) error) error {
	w := want{key, say, get, make}
	waited := identity.PeerID{}
	for {
		// Before any claim: most often it has been there for long.
		if missing, err := w.fetch(ctx); !missing {
			return err
		}
		m, c := t.catalogues()
		if c == nil {
			return make(ctx)
		}
		// Taken before the claim is looked at, so that no change in between is missed.
		changed := t.next()
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
			say(t.memberName(holder) + " is making it; waiting for that")
		}
		select {
		case <-changed:
			time.Sleep(settle) // others may change all the time
		case <-time.After(claimLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// want is what a Once is to get: its arguments.
type want struct {
	key       string
	say       func(string)
	get, make func(ctx context.Context) error
}

// fetch gets what another one made. One that is there and does not come is made here.
func (w want) fetch(ctx context.Context) (missing bool, err error) {
	err = w.get(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return false, err
	case agentbox.CodeOf(err) == agentbox.NotFound:
		return true, nil
	}
	w.say(err.Error())
	return false, w.make(ctx)
}

// fetchOrMake is for who may make it now: who held the claim before may have made it since we
// looked.
func (w want) fetchOrMake(ctx context.Context) error {
	if missing, err := w.fetch(ctx); !missing {
		return err
	}
	return w.make(ctx)
}

// claim says that this machine makes something, where the others would use what it makes: those of
// who is no builder are nobody's. holder is set where it is another one.
func claim(m *mesh.Mesh, c *catalogue.Store, key string) (holder identity.PeerID, ours bool, err error) {
	if m.IsBuilder(m.Self()) {
		return c.TakeClaim(key, claimTTL)
	}
	holder, held := c.Holder(key)
	return holder, !held || holder == m.Self(), nil
}

// makeClaimed makes what we claimed, and renews the claim meanwhile. It is lost when another one
// claimed it at the same time and goes before us. The context of what makes it ends when the claim is
// lost; what it made by then counts.
func (t *Team) makeClaimed(ctx context.Context, m *mesh.Mesh, c *catalogue.Store, w want) (lost bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := make(chan error, 1)
	go func() { made <- w.fetchOrMake(ctx) }() // received below, whatever happens
	look := time.NewTicker(claimLook)
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
			// What was made is offered first: who waits would else begin.
			if offerErr := t.offer(context.WithoutCancel(ctx)); offerErr != nil {
				t.Log.Warn("team: what was made cannot be offered", "key", w.key, "error", offerErr)
			}
			drop()
			return false, err
		case <-look.C:
		}
		// Two machines that had not heard of each other claimed it; the catalogue's rule says which
		// goes on.
		if holder, ok := c.Holder(w.key); ok && holder != m.Self() {
			cancel()
			drop()
			if err := <-made; err == nil {
				return false, nil // it was as good as made
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
