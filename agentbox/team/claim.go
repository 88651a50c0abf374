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
	waited := identity.PeerID{}
	for {
		// Before any claim: most often it has been there for long.
		if err := get(ctx); agentbox.CodeOf(err) != agentbox.NotFound {
			if err == nil || ctx.Err() != nil {
				return err
			}
			say(err.Error()) // it is there and does not come
			return make(ctx)
		}
		m, c := t.catalogues()
		if c == nil {
			return make(ctx)
		}
		// Taken before the claim is looked at, so that no change in between is missed.
		changed := t.next()
		holder, ours, err := claim(m, c, key)
		if err != nil {
			t.Log.Warn("team: cannot say that something is being made", "key", key, "error", err)
			return make(ctx)
		}
		if ours {
			// Who held the claim may have made it, and given up the claim, since we looked.
			again := func(ctx context.Context) error {
				err := get(ctx)
				if err == nil || ctx.Err() != nil {
					return err
				}
				if agentbox.CodeOf(err) != agentbox.NotFound {
					say(err.Error())
				}
				return make(ctx)
			}
			// Nobody waits for what we make, so there is nothing to claim.
			if !m.IsBuilder(m.Self()) {
				return again(ctx)
			}
			lost, err := t.makeClaimed(ctx, m, c, key, again)
			if !lost {
				return err
			}
			continue
		}
		if holder != waited {
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
// claimed it at the same time and goes before us. make's context ends when the claim is lost; what
// it made by then counts.
func (t *Team) makeClaimed(ctx context.Context, m *mesh.Mesh, c *catalogue.Store, key string, make func(ctx context.Context) error) (lost bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := launch(func() error { return make(ctx) })
	look := time.NewTicker(claimLook)
	defer look.Stop()
	renewed := time.Now()
	drop := func() {
		if err := c.DropClaim(key); err != nil {
			t.Log.Warn("team: cannot say that something is made", "key", key, "error", err)
		}
	}
	for {
		select {
		case err := <-made:
			// What was made is offered first: who waits would else begin.
			if offerErr := t.offer(context.WithoutCancel(ctx)); offerErr != nil {
				t.Log.Warn("team: what was made cannot be offered", "key", key, "error", offerErr)
			}
			drop()
			return false, err
		case <-look.C:
		}
		// Two machines that had not heard of each other claimed it; the catalogue's rule says which
		// goes on.
		if holder, ok := c.Holder(key); ok && holder != m.Self() {
			cancel()
			drop()
			if err := <-made; err == nil {
				return false, nil // it was as good as made
			}
			return true, nil
		}
		if time.Since(renewed) > claimRenew {
			renewed = time.Now()
			if _, _, err := c.TakeClaim(key, claimTTL); err != nil {
				t.Log.Warn("team: cannot say that something is still being made", "key", key, "error", err)
			}
		}
	}
}

// launch runs a function beside its caller, who must take the result.
func launch(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}
