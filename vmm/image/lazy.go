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

// recipeKey matches the keys of Recipe.key and derivedKey. A key that came from elsewhere becomes
// the name of a file.
var recipeKey = agentbox.Pattern(`^([0-9a-f]{32}|derived-[0-9a-f]{64})$`)

// NotHereError means that Image has to be completely here. The caller has it completed and tries
// again.
type NotHereError struct{ Image Image }

func (n *NotHereError) Error() string {
	return fmt.Sprintf("image %s is not all here", n.Image.Digest.Short())
}

// AddLazy adds an image whose blocks come later (img.Lazy), as Store.FindRemote returned it. An
// image that is here already stays as it is. If its recipe has given no image here, it gives this
// one from now on. Code Invalid for an image without Lazy, Digest or Size.
func (s *Store) AddLazy(ctx context.Context, img Image) (Image, error) {
	if img.Lazy == nil || img.Digest.IsZero() || img.Size <= 0 {
		return Image{}, agentbox.Errorf(agentbox.Invalid, "image %s: the description names no remote for its file", img.Name)
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
	received := s.Received(img.Digest) // the store of chunks still has these bytes
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
	// What a recipe gave here takes precedence over what it gave elsewhere.
	if _, ok := s.recipe(img.Key); !ok && recipeKey().MatchString(img.Key) {
		if err := s.setRecipe(img.Key, img); err != nil {
			return Image{}, err
		}
	}
	return s.describe(img.Digest)
}

// Completed adds the file of an image that was lazy or damaged, by a hard link if possible and else
// as a copy. file must be on the disk, and belongs to the caller. Completed verifies the whole
// file: right chunks make a wrong image if the list of chunks is wrong. If its digest is not d, the
// error has code Corrupt and the image stays lazy.
func (s *Store) Completed(ctx context.Context, d agentbox.Digest, file string) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	img, err := s.describe(d)
	if err == nil && img.Lazy == nil {
		if _, err := s.open(d); err == nil {
			return nil // it is here already, or was repaired in place
		}
	}
	if err != nil {
		return err
	}
	got, err := agentbox.DigestFile(file)
	if err != nil {
		return hostError(err)
	}
	if got != d {
		from := "elsewhere"
		if img.Lazy != nil {
			from = img.Lazy.From
		}
		return agentbox.Errorf(agentbox.Corrupt, "image %s: %s sent another image, %s", d.Short(), from, got.Short()).
			WithHint("agentbox image rm %s; the owner of that list of images has to repair it", d.Short())
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
	return errors.Join(s.writeSidecar(d, imageCheckName, checked{d, now}), writeJSON(filepath.Join(dir, imageMetaName), img), durable.SyncDir(dir))
}

// linkOrCopy makes to a hard link to from, or a synced copy.
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

// SetTrace stores the blocks of an image that a box read first, in that order. They are prefetched
// for the next machine.
func (s *Store) SetTrace(d agentbox.Digest, blocks []uint32) error {
	return s.writeSidecar(d, imageTraceName, blocks)
}

// Trace returns the blocks of SetTrace, nil if it was never called.
func (s *Store) Trace(d agentbox.Digest) []uint32 { return beside[[]uint32](s, d, imageTraceName) }
