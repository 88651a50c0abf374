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

// How long who needs something waits for the team. A team that is not there may cost no more than
// aloneTime; where a holder was heard from a moment ago, it is there, and may be busy. One that
// vanishes just then is waited for until it has been silent for heardTime: an overloaded machine may
// be late with all that it sends.
const (
	aloneTime = 250 * time.Millisecond
	busyTime  = 10 * time.Second
	heardTime = 3 * time.Second
)

// Image finds an image that a builder of the team offers: by its digest where pin is set, else by
// the key of what it is made from. The store expects it then; its pieces come as they are needed
// (image.Store.Elsewhere). NotFound: nobody offers it. Several offers are tried one after the
// other. It may cost aloneTime for each when nobody answers.
func (t *Team) Image(ctx context.Context, pin agentbox.Digest, key string) (img image.Image, err error) {
	if !pin.IsZero() {
		key = pin.Hex()
	}
	err = t.first(ctx, &t.counters.Images, "image", key, t.offered(catalogue.Image, key), func(o offer) (again bool, err error) {
		img, err = t.describe(ctx, o)
		return true, err
	})
	return img, err
}

// first tries offers until one comes, or one says that no other is to be tried, and counts how that
// ended. NotFound: there are none; Unavailable, with the reasons: none came.
func (t *Team) first(ctx context.Context, count *Lookups, what, key string, offers []offer, get func(offer) (again bool, err error)) error {
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
		return agentbox.Errorf(agentbox.Unavailable, "the team has %s %.12s, and it does not come: %w", what, key, errors.Join(errs...))
	}
	return agentbox.Errorf(agentbox.NotFound, "nobody in the team offers %s %.12s", what, key)
}

// offer is what a builder offers, under a name that is believed.
type offer struct {
	catalogue.Found
	name blob.Name
}

// offered lists what builders offer under a key, by memory. Offers whose name is not what the
// record says are logged and left out; they are a member's mistake, or worse.
func (t *Team) offered(kind catalogue.Kind, key string) []offer {
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

// describe gets what an offered image is, and makes it expected. The description is the word of the
// peer that offers the image, the name that of its maker: both count for what is dropped later
// (Origin, Upon).
func (t *Team) describe(ctx context.Context, o offer) (image.Image, error) {
	digest, ok := layers.ImageOf(o.name)
	if !ok || digest.Hex() != o.Key {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "peer %s offers image %.12s under the name of another", o.Owner.Short(), o.Key)
	}
	// The very image is here, made or got by another way.
	if img, err := t.Files.Get(digest.String()); err == nil && img.Lazy == nil {
		return img, nil // its name stays ours, if it is
	}
	if err := t.reach(ctx, o.About); err != nil {
		return image.Image{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, busyTime)
	defer cancel()
	img, err := t.Images.ReadAbout(ctx, o.About, digest)
	if err != nil {
		return image.Image{}, err
	}
	// A recipe's key is asked for, and this image says that it was made by another recipe.
	if img.Key != o.Alias {
		return image.Image{}, agentbox.Errorf(agentbox.Corrupt, "peer %s offers image %s for what it was not made of", o.Owner.Short(), digest.Short())
	}
	maker := identity.PeerOf(o.name.Producer)
	if img.Origin = maker.String(); maker == t.self() {
		img.Origin = "" // one of ours comes back
	}
	if o.Owner != maker { // whose word the description is
		img.Upon = append(img.Upon, o.Owner.String())
	}
	img.Lazy = &image.Lazy{Manifest: o.Manifest, From: layers.Team}
	return img, t.Images.Adopt(ctx, img, o.name)
}

// reach finds out, within the time that a team which is not there may cost, whether somebody hands
// out a manifest. A holder that was heard from a moment ago is there, and may take longer.
func (t *Team) reach(ctx context.Context, manifest agentbox.Digest) error {
	p := t.now()
	if p == nil {
		return agentbox.Errorf(agentbox.Unavailable, "this machine has left its team")
	}
	ctx, cancel := context.WithTimeout(ctx, busyTime)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var watch sync.WaitGroup
	watch.Go(func() {
		if t.silent(ctx, p, manifest) {
			giveUp(agentbox.Errorf(agentbox.Unavailable, "none of those that have it answers"))
		}
	})
	_, err := p.exchange.Manifest(ctx, manifest)
	giveUp(nil)
	watch.Wait()
	return err
}

// silent waits until no holder of a manifest is heard from, or ctx has ended; it is false then.
func (t *Team) silent(ctx context.Context, p *part, manifest agentbox.Digest) bool {
	var heard time.Time
	packets := map[identity.PeerID]uint64{}
	tick := time.NewTicker(aloneTime)
	defer tick.Stop()
	for first := true; ; first = false {
		for _, id := range t.Holders(manifest) {
			n := p.node.Packets(id)
			if at := p.node.Heard(id); at.After(heard) {
				heard = at
			}
			if n > packets[id] && !first {
				heard = time.Now()
			}
			packets[id] = n
		}
		if !first && time.Since(heard) >= heardTime {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// Setup brings what setup made elsewhere for a key onto this machine's SetupResults, and says who
// made it. NotFound: nobody offers it. progress is told how many pieces have come; it may be nil.
// It returns when all of it is here.
func (t *Team) Setup(ctx context.Context, key agentbox.Digest, progress func(done, total int)) (by string, err error) {
	offers := slices.DeleteFunc(t.offered(catalogue.Setup, key.Hex()), func(o offer) bool {
		got, ok := layers.KeyOf(o.name)
		return !ok || got != key
	})
	err = t.first(ctx, &t.counters.Setups, "what setup made for key", key.Hex(), offers, func(o offer) (again bool, err error) {
		if err = t.reach(ctx, o.Manifest); err == nil {
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

// Counters say how often the team had what was asked for, since the daemon began. They are metrics,
// and decide nothing.
type Counters struct {
	Images, Templates, Kernels Lookups
	Setups                     Lookups // a key is asked for again while somebody else makes it
}

// Lookups are those for one kind of thing.
type Lookups struct{ Found, Missed int }

// Counters gives them.
func (t *Team) Counters() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters
}

// self is this machine's PeerID, zero without a team.
func (t *Team) self() identity.PeerID {
	if m := t.mesh.Load(); m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}
