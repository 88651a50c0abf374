package image

import (
	"bytes"
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

// Store keeps images in a directory. Its methods may be called from any goroutine, and several
// processes may use the same directory.
//
// Writers hold flocks: one for each key (locks/KEY) while that image is looked up or made, and one
// for all directories (locks/tmp) while one is made, moved or removed. The order is key before tmp.
// Readers hold none: an image directory appears by a rename. Only the small files in it change, and
// they are replaced as a whole.
type Store struct {
	dir    string
	limits rootfs.Limits

	// Excluded are directories that no include copies, nor anything in them. Set it, and
	// FindRemote, before the store is used.
	Excluded []string
	// FindRemote looks for an image that would be made otherwise: by its digest if pin is set, else
	// by the key of what it is made from. The result is lazy. NotFound: nobody has it. It may be
	// nil.
	FindRemote func(ctx context.Context, pin agentbox.Digest, key string) (Image, error)
}

// findRemote asks FindRemote for an image and adds it to the store. If it returns false, the image
// has to be made here. The user is told if somebody has the image and it cannot be used.
func (s *Store) findRemote(ctx context.Context, pin agentbox.Digest, key string, p agentbox.Progress) (Image, bool) {
	if s.FindRemote == nil {
		return Image{}, false
	}
	img, err := s.FindRemote(ctx, pin, key)
	if err == nil && img.Lazy != nil { // else it is here, under another key
		img, err = s.AddLazy(ctx, img)
	}
	if err != nil {
		if agentbox.CodeOf(err) != agentbox.NotFound {
			p.Note(err.Error())
		}
		return Image{}, false
	}
	return img, true
}

// Exact returns the image with a digest: one that is here, or that FindRemote has. NotFound if neither
// has it.
func (s *Store) Exact(ctx context.Context, d agentbox.Digest, p agentbox.Progress) (Image, error) {
	if _, err := s.describe(d); err == nil {
		return s.open(d)
	}
	if img, ok := s.findRemote(ctx, d, "", p); ok && img.Digest == d {
		return img, nil
	}
	return Image{}, agentbox.Errorf(agentbox.NotFound, "image %s is neither here nor offered by a builder of the team", d.Short())
}

// currentExclusions reads the forbidden directories, whose content changes.
func (s *Store) currentExclusions() Exclusions {
	return ExcludeBelow(append([]string{s.dir}, s.Excluded...)...)
}

// Open opens the store in dir, or makes one, and removes what builds that died have left.
func Open(ctx context.Context, dir string) (*Store, error) {
	s := &Store{dir: dir, limits: rootfs.DefaultLimits}
	for _, sub := range []string{imagesDir, recipesDir, locksDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, hostError(err)
		}
	}
	return s, s.clear(ctx)
}

// List returns all images whose description can be read, newest first. Get says what is wrong with
// the others.
func (s *Store) List() ([]Image, error) {
	digests, err := s.Digests()
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

// Digests lists the images in the store, damaged ones too, in the order of their digits.
func (s *Store) Digests() ([]agentbox.Digest, error) {
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
	digests, err := s.Digests()
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
	if _, d, ok := s.recipeOf(Recipe{Source: ref}); ok {
		return d, nil
	}
	return agentbox.Digest{}, agentbox.Errorf(agentbox.NotFound, "no image %q here", ref).WithHint("agentbox image ls lists the images")
}

// Remove removes an image, damaged or not. Machines that run from it go on. The next use of its
// recipe builds it again. NotFound if it is not here.
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
	about, _ := s.describe(digest)                       // zero if it is unreadable: its recipe stays, and leads nowhere
	err = os.Rename(from, filepath.Join(trash, "image")) // first, so that a crash leaves no half of an image
	if err == nil {
		err = s.dropRecipe(about.Key, digest)
	}
	return hostError(errors.Join(err, os.RemoveAll(trash)))
}

func (s *Store) imageDir(d agentbox.Digest) string { return filepath.Join(s.dir, imagesDir, d.Hex()) }

// describe reads the description of an image. It does not look at the file.
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

// Decode parses the description of the image d, from this store or from somebody else. Any other
// content is a *DamagedError.
func Decode(b []byte, d agentbox.Digest) (Image, error) {
	var img Image
	if err := json.Unmarshal(b, &img); err != nil || img.Digest != d || img.Size < 0 {
		return Image{}, corrupt(d, "its description is unreadable")
	}
	return img, nil
}

// recipe returns the image that the recipe with this key gave here, if it is still here.
func (s *Store) recipe(key string) (agentbox.Digest, bool) {
	first, _, err := s.readRecipe(key)
	if err != nil {
		return agentbox.Digest{}, false
	}
	d, err := agentbox.ParseDigest(first)
	if err != nil {
		return d, false
	}
	_, err = os.Stat(s.imageDir(d))
	return d, err == nil
}

// readRecipe reads what setRecipe wrote: a digest, and a description or nothing.
func (s *Store) readRecipe(key string) (digest string, rest []byte, err error) {
	b, err := os.ReadFile(filepath.Join(s.dir, recipesDir, key))
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	return strings.TrimSpace(string(first)), rest, err
}

// openRecipe opens an image that the recipe with this key gave. Images of the same files are one in
// the store, whatever their sources say of programs and users: what the recipe's own says counts.
func (s *Store) openRecipe(key string, d agentbox.Digest) (Image, error) {
	img, err := s.open(d)
	if err != nil {
		return img, err
	}
	return s.ofRecipe(key, img), nil
}

func (s *Store) ofRecipe(key string, img Image) Image {
	var own Image
	if _, rest, err := s.readRecipe(key); err != nil || json.Unmarshal(rest, &own) != nil || own.Digest != img.Digest {
		return img
	}
	img.Name, img.Source, img.Manifest = own.Name, own.Source, own.Manifest
	return img.like(own)
}

// like is an image whose programs, users and environment are those of another.
func (i Image) like(of Image) Image {
	i.Env, i.User, i.Accounts, i.Metadata, i.Program = of.Env, of.User, of.Accounts, of.Metadata, of.Program
	return i
}

// dropRecipe removes the record that a recipe gave an image. Callers hold the lock of tmp.
func (s *Store) dropRecipe(key string, d agentbox.Digest) error {
	name := filepath.Join(s.dir, recipesDir, key)
	first, _, err := s.readRecipe(key)
	if !recipeKey().MatchString(key) || err != nil || first != d.String() {
		return nil // it gave another image since then
	}
	return os.Remove(name)
}

// setRecipe records the image that a recipe gave, and replaces an earlier one. What an OCI source says
// of its image is recorded with it.
func (s *Store) setRecipe(key string, img Image) error {
	text := []byte(img.Digest.String() + "\n")
	if img.Program != nil && img.Base.IsZero() {
		said, err := json.Marshal(img)
		if err != nil {
			return err
		}
		text = append(append(text, said...), '\n')
	}
	return writeFile(filepath.Join(s.dir, recipesDir, key), text)
}
