package image

import (
	"context"
	"io"
	"os"
	"slices"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// Derivation makes an image from another one.
type Derivation struct {
	Key        agentbox.Digest                 // of everything that the result depends on, the base included
	Name       string                          // added to the name of the base
	BaseMakers []string                        // PeerIDs of the members that made the layers
	Layers     []func() (io.ReadCloser, error) // tar archives, applied in this order like layers of an OCI image
}

// derivedKey is the key under which the store records the result of a derivation.
func derivedKey(key agentbox.Digest) string { return "derived-" + key.Hex() }

// Find returns the image that a derivation of base gave, here or elsewhere, for callers that cannot
// simply make it. NotFound if nobody has made it, or it has another base.
func (s *Store) Find(ctx context.Context, base Image, key agentbox.Digest, p agentbox.Progress) (Image, error) {
	var img Image
	var err error
	d, ok := s.recipe(derivedKey(key))
	if ok {
		img, err = s.open(d)
	} else {
		img, ok = s.findRemote(ctx, agentbox.Digest{}, derivedKey(key), p)
	}
	if err == nil && (!ok || img.Base != base.Pin()) {
		err = agentbox.Errorf(agentbox.NotFound, "nobody has made this of image %s", base.Digest.Short())
	}
	return img, err
}

// Derive returns the image that d makes from base, and makes it if neither the store nor
// Store.FindRemote has it. For that base must be completely here: *NotHereError otherwise. Only
// then are layers opened, each once.
func (s *Store) Derive(ctx context.Context, base Image, d Derivation, p agentbox.Progress) (Image, error) {
	ask := func(key string) (Image, bool) { return s.findRemote(ctx, agentbox.Digest{}, key, p) }
	return s.deriveFrom(ctx, derivedKey(d.Key), base, d.Name, p, ask, func(b *build) error {
		for _, layer := range d.Layers {
			if err := b.apply(ctx, layer); err != nil {
				return err
			}
		}
		// If a member that made a layer is revoked, the image is removed.
		b.image.addProvenance(d.BaseMakers...)
		return b.makeKeys() // of packages in the layers
	})
}

// deriveFrom makes an image by a change to the tree of base, once for a key. It inherits source,
// packages and environment of base, and rests on the member that made base. ask is that of once.
func (s *Store) deriveFrom(ctx context.Context, key string, base Image, name string, p agentbox.Progress, ask func(key string) (Image, bool), change func(*build) error) (Image, error) {
	return s.findOrMake(ctx, key, p, nil, ask, func(b *build) error {
		if err := b.startFrom(ctx, s.limits, base); err != nil {
			return err
		}
		b.image = base
		b.image.Lazy, b.image.Path, b.image.Origin, b.image.BaseMakers = nil, "", "", slices.Clone(base.BaseMakers)
		b.image.addProvenance(base.Origin)
		b.image.Base, b.image.Name = base.Pin(), base.Name+" "+name
		return change(b)
	})
}

// startFrom reads the tree of the build from an image. The file stays open until the build is
// closed, as the contents of files stay in it.
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

func (b *build) apply(ctx context.Context, layer func() (io.ReadCloser, error)) error {
	r, err := layer()
	if err != nil {
		return err
	}
	defer r.Close()
	return b.tree.ApplyTar(ctx, r, b.spool)
}
