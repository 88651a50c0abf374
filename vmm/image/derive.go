package image

import (
	"context"
	"io"
	"os"
	"slices"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// Derivation is what makes one image of another.
type Derivation struct {
	Key    agentbox.Digest                 // of everything it depends on, the base among it
	Name   string                          // added to the base's name
	Upon   []string                        // PeerIDs of members of the team who made the layers
	Layers []func() (io.ReadCloser, error) // tar archives, applied in this order as layers of an OCI image are
}

// derivedKey is the recipe's key of what a derivation gives.
func derivedKey(key agentbox.Digest) string { return "derived-" + key.Hex() }

// Find gives the image that a derivation of base with a key gave, here or elsewhere, for callers
// that would have to do more than Derive to make it. NotFound: nobody has made it. An image of the
// key that is made of another base is none.
func (s *Store) Find(ctx context.Context, base Image, key agentbox.Digest, p agentbox.Progress) (Image, error) {
	var img Image
	var err error
	d, ok := s.recipe(derivedKey(key))
	if ok {
		img, err = s.open(d)
	} else {
		img, ok = s.elsewhere(ctx, agentbox.Digest{}, derivedKey(key), p)
	}
	if err == nil && (!ok || img.Base != base.Pin()) {
		err = agentbox.Errorf(agentbox.NotFound, "nobody has made this of image %s", base.Digest.Short())
	}
	return img, err
}

// Derive gives the image that d makes of base, making it if it is not here. It asks Store.Elsewhere
// before it makes it, for which base must be here whole: *NotHereError otherwise. Layers are opened
// only if it has to be made, and each once.
func (s *Store) Derive(ctx context.Context, base Image, d Derivation, p agentbox.Progress) (Image, error) {
	ask := func(key string) (Image, bool) { return s.elsewhere(ctx, agentbox.Digest{}, key, p) }
	return s.over(ctx, derivedKey(d.Key), base, d.Name, p, ask, func(b *build) error {
		for _, layer := range d.Layers {
			if err := b.apply(ctx, layer); err != nil {
				return err
			}
		}
		// The members who made the layers are noted, so that the image goes when one of them is
		// revoked.
		b.image.restOn(d.Upon...)
		return b.makeKeys() // of packages that came with the layers, which lack their keys
	})
}

// over makes an image of base by a change to its tree, once for a key. What base says of its
// source, packages and environment is said of it, too; who made base becomes something that it
// rests on. ask is as once wants it.
func (s *Store) over(ctx context.Context, key string, base Image, name string, p agentbox.Progress, ask func(key string) (Image, bool), change func(*build) error) (Image, error) {
	return s.once(ctx, key, p, nil, ask, func(b *build) error {
		if err := b.startFrom(ctx, s.limits, base); err != nil {
			return err
		}
		b.image = base
		b.image.Lazy, b.image.Path, b.image.Origin, b.image.Upon = nil, "", "", slices.Clone(base.Upon)
		b.image.restOn(base.Origin)
		b.image.Base, b.image.Name = base.Pin(), base.Name+" "+name
		return change(b)
	})
}

// startFrom makes the tree of an image the tree of the build. The file stays open until the build
// is closed, since the tree's contents stay in it.
func (b *build) startFrom(ctx context.Context, limits rootfs.Limits, base Image) error {
	if _, err := os.Stat(base.Path); err != nil && base.Lazy != nil {
		return &NotHereError{base}
	}
	f, err := os.Open(base.Path)
	if err != nil {
		return err
	}
	b.base = f
	b.tree, err = rootfs.Read(ctx, f, limits, epoch)
	return err
}

// apply opens a layer and puts it on the tree.
func (b *build) apply(ctx context.Context, layer func() (io.ReadCloser, error)) error {
	r, err := layer()
	if err != nil {
		return err
	}
	defer r.Close()
	return b.tree.ApplyTar(ctx, r, b.spool)
}
