package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// Store keeps images in a directory of its own. Its methods may be called from any goroutine, and
// several processes may use one directory.
//
// What keeps them apart are flocks: one for each key (locks/KEY), held while that image is found or
// made, and one for all directories (locks/tmp), held for the moment in which one is made, moved
// into its place, or cleared away. The order is key before tmp; nothing waits for a key while it
// holds tmp. Readers take none: an image directory appears by one rename and never changes, but for
// its description of being lazy, its check, its trace and what is said of where it came from, which
// are replaced as whole files.
type Store struct {
	dir    string
	limits rootfs.Limits

	// The fields are set before the store is used by several goroutines. Never are directories that
	// no include copies, nor anything in them.
	Never []string
	// Elsewhere, which may be nil, is asked for an image that would be made otherwise: by its
	// digest where pin is set, else by the key of what it is made from. The image it gives is lazy.
	// NotFound says that nobody has it.
	Elsewhere func(ctx context.Context, pin agentbox.Digest, key string) (Image, error)
}

// elsewhere makes an image known here that somebody else has. Without one it is made, whatever the
// reason. An error only means that the image is made here; the user is told where somebody had it
// and it could not be taken.
func (s *Store) elsewhere(ctx context.Context, pin agentbox.Digest, key string, p agentbox.Progress) (Image, bool) {
	if s.Elsewhere == nil {
		return Image{}, false
	}
	img, err := s.Elsewhere(ctx, pin, key)
	if err == nil && img.Lazy != nil { // else it is here under another key
		img, err = s.AddLazy(ctx, img)
	}
	if err != nil {
		if agentbox.CodeOf(err) != agentbox.NotFound {
			p.Say(err.Error())
		}
		return Image{}, false
	}
	return img, true
}

// neverNow looks anew at each use: what is in those directories changes.
func (s *Store) neverNow() Never { return NeverBelow(append([]string{s.dir}, s.Never...)...) }

// Open opens the store in dir, making it if there is none, and clears what builds that died have
// left.
func Open(ctx context.Context, dir string) (*Store, error) {
	s := &Store{dir: dir, limits: rootfs.DefaultLimits}
	for _, sub := range []string{imagesDir, recipesDir, locksDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, hostError(err)
		}
	}
	// Once for each opening: builds of processes that still run are locked and stay.
	return s, s.clear(ctx)
}

// List returns all images whose description can be read, newest first. Get says what is wrong with
// the others.
func (s *Store) List() ([]Image, error) {
	digests, err := s.digests()
	if err != nil {
		return nil, err
	}
	var list []Image
	for _, d := range digests {
		if img, err := s.describe(d); err == nil {
			list = append(list, img)
		}
	}
	slices.SortStableFunc(list, func(a, b Image) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// digests lists the images in the store, damaged ones too, in the order of their digits.
func (s *Store) digests() ([]agentbox.Digest, error) {
	names, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	var list []agentbox.Digest
	for _, d := range names {
		if digest, err := agentbox.ParseDigest("sha256:" + d.Name()); err == nil {
			list = append(list, digest)
		}
	}
	return list, hostError(err)
}

// Get finds an image by digest, by a unique prefix of at least four hex digits of it, or by name,
// the newest of that name first, and makes sure that its bytes have not changed since they were
// last verified. A name that looks like digits loses to an image with these digits. Of a damaged
// image the result has the digest at least, so that it can be removed.
func (s *Store) Get(ref string) (Image, error) {
	d, err := s.find(ref)
	if err != nil {
		return Image{}, err
	}
	return s.open(d)
}

// find is Get without a look at the image.
func (s *Store) find(ref string) (agentbox.Digest, error) {
	digests, err := s.digests()
	if err != nil {
		return agentbox.Digest{}, err
	}
	prefix := strings.TrimPrefix(ref, "sha256:")
	digests = slices.DeleteFunc(digests, func(d agentbox.Digest) bool {
		return len(prefix) < 4 || !strings.HasPrefix(d.Hex(), prefix)
	})
	if len(digests) == 1 {
		return digests[0], nil
	}
	list, err := s.List()
	if err != nil {
		return agentbox.Digest{}, err
	}
	if i := slices.IndexFunc(list, func(img Image) bool { return img.Name == ref }); i >= 0 {
		return list[i].Digest, nil
	}
	if len(digests) > 1 {
		var names []string
		for _, d := range digests {
			img, _ := s.describe(d) // a damaged image has no name
			names = append(names, strings.TrimSpace(d.Short()+" "+img.Name))
		}
		return agentbox.Digest{}, agentbox.Errorf(agentbox.Conflict, "%q may be any of %d images: %s", ref, len(digests), strings.Join(names, "; ")).
			WithHint("more digits of one of them; `agentbox image ls -q` shows all digits")
	}
	// The description of an image that has lost its name may be gone, and its recipe still known.
	if d, ok := s.recipeOf(Recipe{Source: ref}); ok {
		return d, nil
	}
	return agentbox.Digest{}, agentbox.Errorf(agentbox.NotFound, "no image %q here", ref).WithHint("`agentbox image ls` shows what there is")
}

// Remove deletes an image. Machines that run from it go on. The recipe that gave it is forgotten,
// so the next use of it builds again. NotFound where there is none.
func (s *Store) Remove(ctx context.Context, digest agentbox.Digest) error {
	from := s.imageDir(digest)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "no image %s here", digest.Short())
	}
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	trash, err := os.MkdirTemp(filepath.Join(s.dir, tmpDir), "trash-")
	if err != nil {
		return hostError(err)
	}
	about, _ := s.describe(digest) // one that is unreadable has no recipe that is known
	// Renamed first: a crash halfway leaves no image that looks complete.
	err = os.Rename(from, filepath.Join(trash, "image"))
	if err == nil {
		err = s.dropRecipe(about.Key, digest)
	}
	return hostError(errors.Join(err, os.RemoveAll(trash)))
}

// imageDir is where an image is, if it is.
func (s *Store) imageDir(d agentbox.Digest) string { return filepath.Join(s.dir, imagesDir, d.Hex()) }

// describe reads what is known about an image, without looking at its bytes.
func (s *Store) describe(d agentbox.Digest) (Image, error) {
	dir := s.imageDir(d)
	b, err := os.ReadFile(filepath.Join(dir, imageMetaName))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, agentbox.Errorf(agentbox.NotFound, "no image %s here", d.Short())
	}
	if err != nil {
		return Image{}, corrupt(d, "its description is unreadable: "+err.Error())
	}
	img, err := Decode(b, d)
	if err != nil {
		return Image{}, err
	}
	img.Path = filepath.Join(dir, imageFileName)
	return img, nil
}

// Decode reads the description of an image, of this store or as somebody else wrote it. It must be
// of the image d; anything else is a *DamagedError.
func Decode(b []byte, d agentbox.Digest) (Image, error) {
	var img Image
	if err := json.Unmarshal(b, &img); err != nil || img.Digest != d || img.Size < 0 {
		return Image{}, corrupt(d, "its description is unreadable")
	}
	return img, nil
}

// recipe is the image that a recipe gave here, if it did and the image is still there.
func (s *Store) recipe(key string) (agentbox.Digest, bool) {
	b, err := os.ReadFile(filepath.Join(s.dir, recipesDir, key))
	if err != nil {
		return agentbox.Digest{}, false
	}
	d, err := agentbox.ParseDigest(strings.TrimSpace(string(b)))
	if err != nil {
		return d, false
	}
	_, err = os.Stat(s.imageDir(d))
	return d, err == nil
}

// dropRecipe forgets that a recipe gave an image that is gone. Callers hold the lock.
func (s *Store) dropRecipe(key string, d agentbox.Digest) error {
	name := filepath.Join(s.dir, recipesDir, key)
	b, err := os.ReadFile(name)
	if !recipeKey().MatchString(key) || err != nil || strings.TrimSpace(string(b)) != d.String() {
		return nil // it is another's by now, or none's
	}
	return os.Remove(name)
}

// setRecipe notes what a recipe gave here, in place of what it gave before.
func (s *Store) setRecipe(key string, d agentbox.Digest) error {
	return writeFile(filepath.Join(s.dir, recipesDir, key), []byte(d.String()+"\n"))
}
