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

// Ensure returns the image of a recipe, and makes it if it is not here. Concurrent calls for one
// recipe, also in several processes, make it once.
//
// pin, if it is not zero, is the digest that agentbox.lock pins for the base (Image.Pin). If this
// image is here, Ensure uses it. Otherwise an image with the same packages (r.Versions) will do,
// and the user is told: two builds can differ in bytes, since scripts of packages make keys and the
// like. If the recipe gives other packages, the error names them and the new image stays in the
// store.
//
// Includes are added to the base afterwards, only here. The image may be lazy (Image.Lazy) if it
// comes from Store.FindRemote. Errors: Invalid for a wrong recipe; NotFound, Missing, Unavailable
// or NoSpace from its source; Conflict if the pin cannot be kept.
func (s *Store) Ensure(ctx context.Context, r Recipe, pin agentbox.Digest, p agentbox.Progress) (Image, error) {
	return s.ensure(ctx, r, p, func(base Recipe) (Image, error) { return s.ensureBase(ctx, base, pin, p) })
}

// Rebuild makes the image of a recipe again, with the newest packages or from what an OCI reference
// names now. It ignores r.Manifest.
func (s *Store) Rebuild(ctx context.Context, r Recipe, p agentbox.Progress) (Image, error) {
	r.Manifest = ""
	never := func(agentbox.Digest) bool { return false }
	return s.ensure(ctx, r, p, func(base Recipe) (Image, error) { return s.makeBase(ctx, base, p, never, nil) })
}

// ensure returns the image of a recipe; getBase returns its base.
func (s *Store) ensure(ctx context.Context, r Recipe, p agentbox.Progress, getBase func(base Recipe) (Image, error)) (Image, error) {
	r, err := r.normal()
	if err != nil {
		return Image{}, err
	}
	includes, err := resolveIncludes(ctx, r.Include, s.currentExclusions())
	if err != nil {
		return Image{}, err
	}
	base, err := getBase(r.Base())
	if err != nil || len(includes) == 0 {
		return base, err
	}
	return s.ensureIncluded(ctx, base, r, includes, p)
}

// HasBase tells whether the base of a recipe was made here and is still here.
func (s *Store) HasBase(r Recipe) bool {
	_, ok := s.FindBase(r)
	return ok
}

// FindBase returns the base of a recipe if it was made here and is still here. It only looks into
// the store.
func (s *Store) FindBase(r Recipe) (Image, bool) {
	key, d, ok := s.recipeOf(r)
	img, err := s.describe(d)
	return s.ofRecipe(key, img), ok && err == nil
}

func (s *Store) recipeOf(r Recipe) (key string, d agentbox.Digest, ok bool) {
	r, err := r.Base().normal()
	if err != nil {
		return "", d, false
	}
	if key, err = r.baseKey(); err != nil {
		return "", d, false
	}
	d, ok = s.recipe(key)
	return key, d, ok
}

// ensureBase returns the base of a recipe with a pin, see Ensure.
func (s *Store) ensureBase(ctx context.Context, r Recipe, pin agentbox.Digest, p agentbox.Progress) (Image, error) {
	// A pinned image that is here needs neither a network nor a lock.
	if about, err := s.describe(pin); err == nil && about.isBaseOf(r) {
		return s.open(pin)
	}
	enough := func(have agentbox.Digest) bool {
		// Without a pin, any image that the recipe gave before will do.
		if pin.IsZero() || have == pin {
			return true
		}
		img, err := s.open(have)
		return err == nil && r.samePackages(img)
	}
	img, err := s.makeBase(ctx, r, p, enough, func(key string) (Image, bool) {
		img, ok := s.findRemote(ctx, pin, key, p)
		return img, ok && img.isBaseOf(r)
	})
	switch {
	case err != nil || pin.IsZero() || img.Digest == pin:
		return img, err
	case r.samePackages(img):
		p.Note(fmt.Sprintf("agentbox.lock pins %s, and the same packages gave %s here: a key that a package made, say, differs; agentbox image pull --from REMOTE gets the very bytes",
			pin.Short(), img.Digest.Short()))
		return img, nil
	}
	return Image{}, mismatch(r, pin, img)
}

// isBaseOf tells whether an image was made from the source of r with nothing on top. Otherwise a
// repository could name the digest of another project's setup result in its lock file, and get it
// into its boxes.
func (i Image) isBaseOf(r Recipe) bool {
	return i.Base.IsZero() && len(i.Include) == 0 && i.Source == r.Source && i.Platform == r.Platform
}

func (r Recipe) samePackages(img Image) bool {
	return len(r.Versions) > 0 && slices.Equal(r.Versions, img.Versions)
}

// maxNamed is how many packages an error names.
const maxNamed = 5

// mismatch says in one line why a pin cannot be kept: which packages differ, or that only bytes do.
func mismatch(r Recipe, pin agentbox.Digest, img Image) error {
	err := agentbox.Errorf(agentbox.Conflict, "image %s is pinned to %s in agentbox.lock, but building it gave %s: it was made by another version of agentbox, or from other bytes",
		r.Source, pin.Short(), img.Digest.Short())
	if list := changes(r.Versions, img.Versions); len(r.Versions) > 0 && len(list) > 0 {
		more := ""
		if len(list) > maxNamed {
			list, more = list[:maxNamed], fmt.Sprintf(" and %d more", len(list)-maxNamed)
		}
		err = agentbox.Errorf(agentbox.Conflict, "image %s is pinned in agentbox.lock to other versions than there are now: %s%s", r.Source, strings.Join(list, ", "), more)
	}
	return err.WithHint("`agentbox image build --update` pins what there is now; commit agentbox.lock afterwards")
}

// makeBase returns the image that a recipe gave before, if enough accepts it, or that ask finds by
// the key of the recipe. Otherwise it builds the image. ask may be nil.
func (s *Store) makeBase(ctx context.Context, r Recipe, p agentbox.Progress, enough func(agentbox.Digest) bool, ask func(key string) (Image, bool)) (Image, error) {
	key, err := r.baseKey()
	if err != nil {
		return Image{}, err
	}
	return s.findOrMake(ctx, key, p, enough, ask, func(b *build) error {
		b.image = Image{Name: r.Source, Source: r.Source, Platform: r.Platform, Packages: r.Packages}
		unpack := b.oci
		if k, _ := r.source(); k == fromApt {
			unpack = b.apt
		}
		if err := unpack(ctx, r); err != nil {
			return err
		}
		return b.prepare()
	})
}

// findOrMake returns the image that was made for key before, if enough accepts it, or that ask
// finds. Otherwise it builds one: fill makes the tree and the description. Both enough and ask may
// be nil. once holds the flock of the key while it builds, so that other processes wait and then
// find the image. It looks for the image before it locks, too, since most calls find it.
func (s *Store) findOrMake(ctx context.Context, key string, p agentbox.Progress, enough func(agentbox.Digest) bool, ask func(key string) (Image, bool), fill func(*build) error) (Image, error) {
	made := func() (agentbox.Digest, bool) {
		d, ok := s.recipe(key)
		return d, ok && (enough == nil || enough(d))
	}
	if d, ok := made(); ok {
		return s.openRecipe(key, d)
	}
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, key), func() {
		p.Update(step, "wait another process makes this image", 0, 0)
	})
	if err != nil {
		return Image{}, err
	}
	defer release()
	if d, ok := made(); ok {
		return s.openRecipe(key, d)
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
	// The error of the build is more useful than that of the cleanup.
	if closed := b.close(); err == nil && closed != nil {
		err = closed
	}
	return img, hostError(err)
}

// baseKey returns the key of the base of a normalized recipe. For an archive the key contains its
// size, inode and modification time (not ctime, as a moved file is the same), for a layout the
// manifest that it names now.
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
		img, err := openLayout(rest, r)
		if err != nil {
			return "", ociError(r.Source, err)
		}
		manifest, err := img.Digest()
		return r.key(manifest.String()), ociError(r.Source, err)
	}
	return r.key(""), nil
}

// missingSource makes the error for a path that cannot be read.
func missingSource(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "no image at %s", path)
	}
	return hostError(err)
}
