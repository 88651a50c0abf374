package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// recipeKey is what a key made by Recipe.key or derivedKey looks like: one that came from elsewhere
// becomes the name of a file.
var recipeKey = agentbox.Pattern(`^([0-9a-f]{32}|derived-[0-9a-f]{64})$`)

// NotHereError says that an image has to be here completely for what was asked. A caller gets Image
// completed and asks again.
type NotHereError struct{ Image Image }

// Error implements error.
func (e *NotHereError) Error() string {
	return fmt.Sprintf("image %s is not all here", e.Image.Digest.Short())
}

// AddLazy makes an image known whose file comes piece by piece (img.Lazy). One that is here already
// stays as it is. A recipe that has given nothing here gives this image from now on, if it is what
// gave it elsewhere. img is as Store.Elsewhere gave it, with its Digest and Size. Code Invalid for
// one without them.
func (s *Store) AddLazy(ctx context.Context, img Image) (Image, error) {
	if img.Lazy == nil || img.Digest.IsZero() || img.Size <= 0 {
		return Image{}, agentbox.Errorf(agentbox.Invalid, "image %s: it is not said where its file comes from", img.Name)
	}
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return Image{}, err
	}
	defer release()
	place := s.imageDir(img.Digest)
	if here, err := s.open(img.Digest); err == nil && here.Lazy == nil {
		return here, nil
	}
	received := s.Received(img.Digest) // the store of chunks goes on with what it has of it
	if err := errors.Join(os.RemoveAll(place), os.Mkdir(place, 0o700)); err != nil {
		return Image{}, hostError(err)
	}
	err = writeJSON(filepath.Join(place, imageMetaName), img)
	if err == nil && len(received) > 0 {
		err = s.SetReceived(img.Digest, received)
	}
	if err != nil {
		return Image{}, errors.Join(err, os.RemoveAll(place))
	}
	// The key came from elsewhere, so it is checked before it becomes a file's name. What a recipe
	// gave here is not replaced by what it gave somebody else.
	if _, ok := s.recipe(img.Key); !ok && recipeKey().MatchString(img.Key) {
		if err := s.setRecipe(img.Key, img.Digest); err != nil {
			return Image{}, err
		}
	}
	return s.describe(img.Digest)
}

// Completed takes in the file of an image that was not all here, or was damaged, as another name of
// it where that is possible and a copy where not. It is verified as a whole: pieces that were right
// make a wrong image when their list is of another. file is on the same file system as a rule, and
// belongs to the caller. The description says from then on that the image is here. An image whose
// bytes are others than d is code Corrupt, and stays lazy.
func (s *Store) Completed(ctx context.Context, d agentbox.Digest, file string) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	img, err := s.describe(d)
	if err == nil && img.Lazy == nil {
		if _, err := s.open(d); err == nil {
			return nil // here already, or repaired in its place
		}
	}
	if err != nil {
		return err
	}
	// Each piece had its digest, and the list of pieces was believed: the whole decides.
	got, err := agentbox.DigestFile(file)
	if err != nil {
		return hostError(err)
	}
	if got != d {
		from := "elsewhere"
		if img.Lazy != nil {
			from = img.Lazy.From
		}
		return agentbox.Errorf(agentbox.Corrupt, "image %s: what came from %s is another image, %s", d.Short(), from, got.Short()).
			WithHint("agentbox image rm %s; whoever made that list of images has to mend it", d.Short())
	}
	dir := s.imageDir(d)
	fresh := filepath.Join(dir, imageFileName+".tmp")
	if err := errors.Join(os.RemoveAll(fresh), linkOrCopy(fresh, file), os.Rename(fresh, img.Path)); err != nil {
		return hostError(err)
	}
	now, err := durable.Identify(img.Path)
	if err != nil {
		return hostError(err)
	}
	img.Lazy = nil
	return errors.Join(s.setBeside(d, imageCheckName, checked{d, now}), writeJSON(filepath.Join(dir, imageMetaName), img), durable.SyncDir(dir))
}

// linkOrCopy makes to another name of from, or a synced copy.
func linkOrCopy(to, from string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // copy_file_range shares blocks where the file system can
	return errors.Join(err, out.Sync(), out.Close())
}

// SetTrace remembers the blocks of an image that a box read first, in that order. The next machine
// of the image gets them first.
func (s *Store) SetTrace(d agentbox.Digest, blocks []uint32) error {
	return s.setBeside(d, imageTraceName, blocks)
}

// Trace gives what SetTrace was given, nothing when that was never called.
func (s *Store) Trace(d agentbox.Digest) []uint32 { return beside[[]uint32](s, d, imageTraceName) }
