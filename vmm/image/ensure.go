package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// Ensure gives the image of a recipe, making it if it is not here.
//
// pin, if not zero, is the digest that the base of the recipe must have (Image.Pin, from agentbox.lock). If that image is
// here it is used at once; if the recipe gives another one, the error names both, and the new one stays in the store.
// Concurrent calls for one recipe, also from several processes, make it once.
func (s *Store) Ensure(ctx context.Context, r Recipe, pin agentbox.Digest, p Progress) (Image, error) {
	r, err := r.normal()
	if err != nil {
		return Image{}, err
	}
	includes, err := resolveIncludes(ctx, r.Include)
	if err != nil {
		return Image{}, err
	}
	base, err := s.ensureBase(ctx, r.Base(), pin, p)
	if err != nil || len(includes) == 0 {
		return base, err
	}
	return s.ensureIncluded(ctx, base, r, includes, p)
}

// Rebuild makes the image of a recipe anew, whatever is here, and gives it with the newest packages, or the image that an
// OCI reference names now. r.Manifest is ignored.
func (s *Store) Rebuild(ctx context.Context, r Recipe, p Progress) (Image, error) {
	r, err := r.normal()
	if err != nil {
		return Image{}, err
	}
	r.Manifest = ""
	includes, err := resolveIncludes(ctx, r.Include)
	if err != nil {
		return Image{}, err
	}
	base, err := s.makeBase(ctx, r.Base(), p, func(agentbox.Digest) bool { return false })
	if err != nil || len(includes) == 0 {
		return base, err
	}
	return s.ensureIncluded(ctx, base, r, includes, p)
}

func (s *Store) ensureBase(ctx context.Context, r Recipe, pin agentbox.Digest, p Progress) (Image, error) {
	if !pin.IsZero() {
		img, err := s.open(pin)
		if err == nil || agentbox.CodeOf(err) != agentbox.NotFound {
			return img, err
		}
	}
	img, err := s.makeBase(ctx, r, p, func(have agentbox.Digest) bool { return pin.IsZero() || have == pin })
	if err == nil && !pin.IsZero() && img.Digest != pin {
		return Image{}, mismatch(r, pin, img)
	}
	return img, err
}

func mismatch(r Recipe, pin agentbox.Digest, img Image) error {
	why := "packages have newer versions now"
	if k, _ := r.source(); k != fromApt {
		why = "it was made by another version of agentbox, or from other bytes"
	}
	return agentbox.Errorf(agentbox.Conflict, "image %s is pinned to %s in agentbox.lock, but building it gave %s: %s",
		r.Source, pin.Short(), img.Digest.Short(), why).
		WithHint("`agentbox image build --update` pins the new one; commit agentbox.lock afterwards")
}

// makeBase gives the image that a recipe gave before if enough says so, else it builds it.
func (s *Store) makeBase(ctx context.Context, r Recipe, p Progress, enough func(agentbox.Digest) bool) (Image, error) {
	extra, err := localFingerprint(r)
	if err != nil {
		return Image{}, err
	}
	return s.once(ctx, r.key(extra), p, enough, func(b *build) error {
		b.image = Image{Name: r.Source, Source: r.Source, Platform: r.Platform, Packages: r.Packages}
		if err := b.source(ctx, r); err != nil {
			return err
		}
		return b.prepare()
	})
}

// once builds what key stands for unless it was built already, one caller at a time.
func (s *Store) once(ctx context.Context, key string, p Progress, enough func(agentbox.Digest) bool, fill func(*build) error) (Image, error) {
	if d, ok := s.recipe(key); ok && enough(d) {
		return s.open(d)
	}
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, key), func() {
		p.tell(Event{Step: "wait", Detail: "another process makes this image"})
	})
	if err != nil {
		return Image{}, err
	}
	defer release()
	if d, ok := s.recipe(key); ok && enough(d) {
		return s.open(d)
	}
	b, err := s.newBuild(ctx, p)
	if err != nil {
		return Image{}, err
	}
	err = fill(b)
	b.image.Key = key
	var img Image
	if err == nil {
		img, err = s.finish(ctx, b)
	}
	if closed := b.close(); err == nil && closed != nil {
		err = closed
	}
	return img, hostError(err)
}

// localFingerprint is what tells one content of a local source from another.
func localFingerprint(r Recipe) (string, error) {
	switch k, rest := r.source(); k {
	case fromArchive:
		path, _ := splitTag(rest)
		now, err := statOf(path)
		if err != nil {
			return "", missingSource(path, err)
		}
		return fingerprintOf(now), nil
	case fromLayout:
		return layoutFingerprint(rest, r)
	}
	return "", nil
}

func missingSource(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "no image at %s", path)
	}
	return hostError(err)
}
