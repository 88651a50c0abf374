package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Ensure gives the image of a recipe, making it if it is not here.
//
// pin, if not zero, is the digest that the base of the recipe must have (Image.Pin, from
// agentbox.lock). If that image is here it is used at once. Else the image that has the very
// packages of r.Versions serves as well: scripts of packages make keys and the like, so two builds
// need not have the same bytes, and the user is told. If the recipe gives other packages, the error
// names them, and the new image stays in the store. Concurrent calls for one recipe, also from
// several processes, make it once.
//
// What is included from this host is laid over the base afterwards, and is never asked for
// elsewhere. The image may be lazy (Image.Lazy) where Store.Elsewhere gave it. Errors: Invalid for
// a recipe that is none, NotFound, Missing, Unavailable or NoSpace from its source, Conflict where
// a pin cannot be kept.
func (s *Store) Ensure(ctx context.Context, r Recipe, pin agentbox.Digest, p agentbox.Progress) (Image, error) {
	return s.ensure(ctx, r, p, func(base Recipe) (Image, error) { return s.ensureBase(ctx, base, pin, p) })
}

// Rebuild makes the image of a recipe anew, whatever is here, and gives it with the newest
// packages, or the image that an OCI reference names now. r.Manifest is ignored.
func (s *Store) Rebuild(ctx context.Context, r Recipe, p agentbox.Progress) (Image, error) {
	r.Manifest = "" // what the reference names now, not what the lock file says it named
	never := func(agentbox.Digest) bool { return false }
	return s.ensure(ctx, r, p, func(base Recipe) (Image, error) { return s.makeBase(ctx, base, p, never, nil) })
}

// ensure gives the image of a recipe whose base make gives.
func (s *Store) ensure(ctx context.Context, r Recipe, p agentbox.Progress, make func(base Recipe) (Image, error)) (Image, error) {
	r, err := r.normal()
	if err != nil {
		return Image{}, err
	}
	includes, err := resolveIncludes(ctx, r.Include, s.neverNow())
	if err != nil {
		return Image{}, err
	}
	base, err := make(r.Base())
	if err != nil || len(includes) == 0 {
		return base, err
	}
	return s.ensureIncluded(ctx, base, r, includes, p)
}

// Has tells whether the base of a recipe was made here and is still here, so that nobody need be
// asked for it.
func (s *Store) Has(r Recipe) bool {
	_, ok := s.Made(r)
	return ok
}

// Made gives the base of a recipe if it was made here and is still here. It costs a look into the
// store, and asks nobody. A recipe that is none was never made.
func (s *Store) Made(r Recipe) (Image, bool) {
	d, ok := s.recipeOf(r)
	img, err := s.describe(d)
	return img, ok && err == nil
}

// recipeOf is recipe for the base of r.
func (s *Store) recipeOf(r Recipe) (agentbox.Digest, bool) {
	r, err := r.Base().normal()
	if err != nil {
		return agentbox.Digest{}, false
	}
	key, err := r.baseKey()
	if err != nil {
		return agentbox.Digest{}, false
	}
	return s.recipe(key)
}

// ensureBase gives the base as pin wants it, see Ensure.
func (s *Store) ensureBase(ctx context.Context, r Recipe, pin agentbox.Digest, p agentbox.Progress) (Image, error) {
	// A pinned image that is here needs no recipe, no network and no lock.
	if about, err := s.describe(pin); err == nil && about.isBaseOf(r) {
		return s.open(pin)
	}
	enough := func(have agentbox.Digest) bool {
		// Without a pin whatever the recipe gave before will do: images do not grow old by
		// themselves.
		if pin.IsZero() || have == pin {
			return true
		}
		img, err := s.open(have)
		return err == nil && r.samePackages(img)
	}
	img, err := s.makeBase(ctx, r, p, enough, func(key string) (Image, bool) {
		img, ok := s.elsewhere(ctx, pin, key, p)
		return img, ok && img.isBaseOf(r)
	})
	switch {
	case err != nil || pin.IsZero() || img.Digest == pin:
		return img, err
	case r.samePackages(img):
		p.Say(fmt.Sprintf("agentbox.lock pins %s, and the same packages gave %s here: a key that a package made, say, differs; agentbox image pull --from PLACE gets the very bytes",
			pin.Short(), img.Digest.Short()))
		return img, nil
	}
	return Image{}, mismatch(r, pin, img)
}

// isBaseOf tells whether an image was made from the source of r and has nothing of anybody on top.
// A lock file is the repository's: what else is in the store it must not name. Otherwise a
// repository could have its boxes made of another project's setup result by naming its digest.
func (i Image) isBaseOf(r Recipe) bool {
	return i.Base.IsZero() && len(i.Include) == 0 && i.Source == r.Source && i.Platform == r.Platform
}

// samePackages tells whether an image has the very packages that the recipe is pinned to.
func (r Recipe) samePackages(img Image) bool {
	return len(r.Versions) > 0 && slices.Equal(r.Versions, img.Versions)
}

// mostNamed is how many packages an error names.
const mostNamed = 5

// mismatch says in one line why a pin cannot be kept: which packages differ, or that only bytes do.
func mismatch(r Recipe, pin agentbox.Digest, img Image) error {
	err := agentbox.Errorf(agentbox.Conflict, "image %s is pinned to %s in agentbox.lock, but building it gave %s: it was made by another version of agentbox, or from other bytes",
		r.Source, pin.Short(), img.Digest.Short())
	if list := changes(r.Versions, img.Versions); len(r.Versions) > 0 && len(list) > 0 {
		more := ""
		if len(list) > mostNamed {
			list, more = list[:mostNamed], fmt.Sprintf(" and %d more", len(list)-mostNamed)
		}
		err = agentbox.Errorf(agentbox.Conflict, "image %s is pinned in agentbox.lock to other versions than there are now: %s%s", r.Source, strings.Join(list, ", "), more)
	}
	return err.WithHint("`agentbox image build --update` pins what there is now; commit agentbox.lock afterwards")
}

// makeBase gives the image that a recipe gave before if enough says so, or that ask, which may be
// nil, finds by the recipe's key; else it builds it.
func (s *Store) makeBase(ctx context.Context, r Recipe, p agentbox.Progress, enough func(agentbox.Digest) bool, ask func(key string) (Image, bool)) (Image, error) {
	key, err := r.baseKey()
	if err != nil {
		return Image{}, err
	}
	return s.once(ctx, key, p, enough, ask, func(b *build) error {
		b.image = Image{Name: r.Source, Source: r.Source, Platform: r.Platform, Packages: r.Packages}
		make := b.oci
		if k, _ := r.source(); k == fromApt {
			make = b.apt
		}
		if err := make(ctx, r); err != nil {
			return err
		}
		return b.prepare()
	})
}

// once builds what key stands for unless it was built already, or ask, which may be nil, gives it;
// one caller at a time. enough says of an image that was made before whether it will do; nil: any
// does. fill makes the tree and the description of a build. The flock of the key is held while it
// is made, so other processes wait and then find it. It is looked for before the lock, too, since
// that is what happens most of the time.
func (s *Store) once(ctx context.Context, key string, p agentbox.Progress, enough func(agentbox.Digest) bool, ask func(key string) (Image, bool), fill func(*build) error) (Image, error) {
	made := func() (agentbox.Digest, bool) {
		d, ok := s.recipe(key)
		return d, ok && (enough == nil || enough(d))
	}
	if d, ok := made(); ok {
		return s.open(d)
	}
	// The lock is of this key: other images are made meanwhile.
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, key), func() {
		p.Move(step, "wait another process makes this image", 0, 0)
	})
	if err != nil {
		return Image{}, err
	}
	defer release()
	if d, ok := made(); ok {
		return s.open(d)
	}
	if ask != nil {
		if img, ok := ask(key); ok {
			return img, nil
		}
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
	// The build's own error says more than one of clearing up.
	if closed := b.close(); err == nil && closed != nil {
		err = closed
	}
	return img, hostError(err)
}

// baseKey is the key of the base of a recipe in its normal form. What comes from this host has in
// it what tells one content from another: an archive's size, inode and time (and no ctime: a file
// that was moved is the same), and of a layout the manifest that it names.
func (r Recipe) baseKey() (string, error) {
	switch k, rest := r.source(); k {
	case fromArchive:
		path, _ := splitTag(rest)
		now, err := durable.Identify(path)
		if err != nil {
			return "", missingSource(path, err)
		}
		return r.key(fmt.Sprintf("%d %d %d", now.Size, now.Inode, now.MTime)), nil
	case fromLayout:
		img, err := openLayout(rest, r) // each time: its index may name another manifest by now
		if err != nil {
			return "", ociError(r.Source, err)
		}
		manifest, err := img.Digest()
		return r.key(manifest.String()), ociError(r.Source, err)
	}
	return r.key(""), nil
}

// missingSource gives a path that is not there its code.
func missingSource(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "no image at %s", path)
	}
	return hostError(err)
}
