package team

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/cachestore/blob"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// How long a lookup waits for the team. A team that cannot be reached may cost at most
// unreachableTimeout. A holder that was heard from a moment ago is online but may be busy. If it
// vanishes just then, we wait until it has been silent for silenceTimeout, because an overloaded
// machine may be late with everything that it sends.
const (
	unreachableTimeout = 250 * time.Millisecond
	busyTimeout        = 10 * time.Second
	silenceTimeout     = 3 * time.Second
)

// Image finds an image that a builder of the team offers: by its digest if pin is set, otherwise by
// the key of what it is made from. The store then expects the image, and its pieces come as they
// are needed (image.Store.FindRemote). Several offers are tried one after the other, each of which
// may cost unreachableTimeout if nobody answers. Image returns NotFound if nobody offers it.
func (t *Team) Image(ctx context.Context, pin agentbox.Digest, key string) (img image.Image, err error) {
	if !pin.IsZero() {
		key = pin.Hex()
	}
	err = t.fetchFirst(ctx, &t.counters.Images, "image", key, t.offersOf(catalogue.Image, key), func(o offer) (again bool, err error) {
		img, err = t.describe(ctx, o)
		return true, err
	})
	return img, err
}

// fetchFirst tries the offers in order until get succeeds or returns again as false, and counts the
// outcome. It returns NotFound if there are no offers, and Unavailable with the reasons if all of
// them failed.
func (t *Team) fetchFirst(ctx context.Context, count *Lookups, what, key string, offers []offer, get func(offer) (again bool, err error)) error {
	var errs []error
	for again, i := true, 0; again && i < len(offers); i++ {
		var err error
		if again, err = get(offers[i]); err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			count.Found++
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	count.Missed++
	if len(errs) > 0 {
		return agentbox.Classify(agentbox.Unavailable, "cannot fetch %s %.12s from the team: %w", what, key, errors.Join(errs...))
	}
	return agentbox.Errorf(agentbox.NotFound, "no peer in the team offers %s %.12s", what, key)
}

// offer is what a builder offers, under a name that we believe.
type offer struct {
	catalogue.Found
	name blob.Name
}

// offersOf lists what builders offer under a key. It reads only memory. An offer whose name does
// not match its record is a member's mistake or an attack: it is logged and left out.
func (t *Team) offersOf(kind catalogue.Kind, key string) []offer {
	m, c := t.catalogues()
	if c == nil {
		return nil
	}
	var out []offer
	for _, f := range c.Lookup(kind, key) {
		if !m.IsBuilder(f.Owner) {
			continue
		}
		n, err := blob.DecodeName(f.Name)
		if err != nil || n.Manifest != f.Manifest || n.Scope != blob.Team || !t.Trusts(n.Producer) {
			t.Log.Warn("team: an offer is not what its name says", "peer", f.Owner.Short(), "kind", kind, "key", f.Key)
			continue
		}
		out = append(out, offer{f, n})
	}
	return out
}

// describe fetches the description of an offered image and makes the store expect the image. The
// description comes from the peer that offers the image, the name from its maker. Both are
// recorded, because the image is dropped when either is no longer trusted (Origin, Upon).
func (t *Team) describe(ctx context.Context, o offer) (image.Image, error) {
	digest, ok := layers.ImageOf(o.name)
	if !ok || digest.Hex() != o.Key {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "peer %s offers image %.12s under the name of another", o.Owner.Short(), o.Key)
	}
	// The same image is already here, made or fetched in another way.
	if img, err := t.Files.Get(digest.String()); err == nil && img.Lazy == nil {
		return img, nil // the name remains our own if it is
	}
	if err := t.awaitReachable(ctx, o.About); err != nil {
		return image.Image{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	img, err := t.Images.FetchDescription(ctx, o.About, digest)
	if err != nil {
		return image.Image{}, err
	}
	// We asked for a recipe's key, but this image was made from another recipe.
	if img.Key != o.Alias {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "peer %s offers image %s for a recipe that it was not made from", o.Owner.Short(), digest.Short())
	}
	maker := identity.PeerOf(o.name.Producer)
	if img.Origin = maker.String(); maker == t.self() {
		img.Origin = "" // one of our own images comes back
	}
	if o.Owner != maker { // the owner wrote the description
		img.BaseMakers = append(img.BaseMakers, o.Owner.String())
	}
	img.Lazy = &image.Lazy{Manifest: o.Manifest, From: layers.Team}
	return img, t.Images.Adopt(ctx, img, o.name)
}

// awaitReachable finds out whether any member serves a manifest, and spends only the time that an
// unreachable team may cost. A holder that was heard from a moment ago is online and may take
// longer.
func (t *Team) awaitReachable(ctx context.Context, manifest agentbox.Digest) error {
	p := t.current()
	if p == nil {
		return agentbox.Errorf(agentbox.Unavailable, "this machine has left its team")
	}
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	var watch sync.WaitGroup
	watch.Go(func() {
		if t.awaitSilence(ctx, p, manifest) {
			cancelCause(agentbox.Errorf(agentbox.Unavailable, "no peer that has it answers"))
		}
	})
	_, err := p.exchange.Manifest(ctx, manifest)
	cancelCause(nil)
	watch.Wait()
	return err
}

// awaitSilence waits until no holder of a manifest has been heard from recently, and returns true.
// It returns false if ctx ends first.
func (t *Team) awaitSilence(ctx context.Context, p *membership, manifest agentbox.Digest) bool {
	var lastHeard time.Time
	packets := map[identity.PeerID]uint64{}
	tick := time.NewTicker(unreachableTimeout)
	defer tick.Stop()
	for first := true; ; first = false {
		for _, id := range t.Holders(manifest) {
			n := p.node.Packets(id)
			if at := p.node.LastHeard(id); at.After(lastHeard) {
				lastHeard = at
			}
			if n > packets[id] && !first {
				lastHeard = time.Now()
			}
			packets[id] = n
		}
		if !first && time.Since(lastHeard) >= silenceTimeout {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// Setup copies the setup result that another machine made for a key into SetupResults, and returns
// who made it. It returns when the whole result is here, and NotFound if nobody offers it. progress
// receives the number of pieces that have arrived; it may be nil.
func (t *Team) Setup(ctx context.Context, key agentbox.Digest, progress func(done, total int)) (by string, err error) {
	offers := slices.DeleteFunc(t.offersOf(catalogue.Setup, key.Hex()), func(o offer) bool {
		got, ok := layers.KeyOf(o.name)
		return !ok || got != key
	})
	err = t.fetchFirst(ctx, &t.counters.Setups, "what setup made for key", key.Hex(), offers, func(o offer) (again bool, err error) {
		if err = t.awaitReachable(ctx, o.Manifest); err == nil {
			err = t.SetupResults.Adopt(ctx, t.Images.Remotes, o.name, progress)
		}
		if err == nil {
			by = t.memberName(identity.PeerOf(o.name.Producer))
		}
		return true, err
	})
	return by, err
}

func (t *Team) memberName(id identity.PeerID) string {
	if m := t.mesh.Load(); m != nil {
		if member, err := m.Find(id.String()); err == nil {
			return member.Name
		}
	}
	return id.Short()
}

// Counters count how often lookups in the team succeeded since the daemon started. They are
// metrics, and no decision depends on them.
type Counters struct {
	Images, Templates, Kernels Lookups
	Setups                     Lookups // a key is looked up repeatedly while another machine makes it
}

// Lookups counts lookups of one kind.
type Lookups struct{ Found, Missed int }

// Counters returns a copy of the counters.
func (t *Team) Counters() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters
}

// self returns this machine's PeerID, or zero without a team.
func (t *Team) self() identity.PeerID {
	if m := t.mesh.Load(); m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}
