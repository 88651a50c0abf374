package image

import (
	"context"
	"io"
	"maps"
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
	Roots      map[string]Image                // other images, complete, by the directory that gets their root
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
		img, err = s.openRecipe(derivedKey(key), d)
	} else {
		img, ok = s.findRemote(ctx, agentbox.Digest{}, derivedKey(key), p)
	}
	if err == nil && (!ok || img.Base != base.Pin()) {
		err = agentbox.Errorf(agentbox.NotFound, "nobody has made this of image %s", base.Digest.Short())
	}
	return img.like(base), err
}

// Derive returns the image that d makes from base, and makes it if neither the store nor
// Store.FindRemote has it. For that all images must be completely here: *NotHereError otherwise. Only
// then are layers opened, each once.
func (s *Store) Derive(ctx context.Context, base Image, d Derivation, p agentbox.Progress) (Image, error) {
	ask := func(key string) (Image, bool) { return s.findRemote(ctx, agentbox.Digest{}, key, p) }
	return s.deriveFrom(ctx, derivedKey(d.Key), base, d.Name, p, ask, func(b *build) error {
		for _, at := range slices.Sorted(maps.Keys(d.Roots)) {
			if err := b.addRoot(ctx, s.limits, at, d.Roots[at]); err != nil {
				return err
			}
		}
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
	img, err := s.findOrMake(ctx, key, p, nil, ask, func(b *build) error {
		if err := b.startFrom(ctx, s.limits, base); err != nil {
			return err
		}
		b.image = base
		b.image.Lazy, b.image.Path, b.image.Origin, b.image.BaseMakers = nil, "", "", slices.Clone(base.BaseMakers)
		b.image.addProvenance(base.Origin)
		b.image.Base, b.image.Name = base.Pin(), base.Name+" "+name
		return change(b)
	})
	return img.like(base), err
}

func (b *build) startFrom(ctx context.Context, limits rootfs.Limits, base Image) (err error) {
	b.tree, err = b.treeOf(ctx, limits, base)
	return err
}

func (b *build) addRoot(ctx context.Context, limits rootfs.Limits, at string, img Image) error {
	tree, err := b.treeOf(ctx, limits, img)
	if err != nil {
		return err
	}
	b.image.Roots = append(slices.Clip(b.image.Roots), Root{at, img.Digest, img.Source, img.Env, img.Program})
	b.image.addProvenance(append(slices.Clone(img.BaseMakers), img.Origin)...)
	return b.tree.Graft(at, tree)
}

func (b *build) treeOf(ctx context.Context, limits rootfs.Limits, img Image) (*rootfs.Tree, error) {
	if _, err := os.Stat(img.Path); err != nil && img.Lazy != nil {
		return nil, &NotHereError{img}
	}
	f, err := os.Open(img.Path)
	if err != nil {
		return nil, err
	}
	b.open = append(b.open, f)
	return rootfs.Read(ctx, f, limits, epoch)
}

func (b *build) apply(ctx context.Context, layer func() (io.ReadCloser, error)) error {
	r, err := layer()
	if err != nil {
		return err
	}
	defer r.Close()
	return b.tree.ApplyTar(ctx, r, b.spool)
}
