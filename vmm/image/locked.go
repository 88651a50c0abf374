package image

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
)

// EnsureLocked returns the image of a recipe as the lock file at path pins it. If the file, which
// need not exist, has no pin, EnsureLocked adds one. With update it makes the image again and
// replaces the pin. If the file cannot be written, the image is returned unpinned and the user is
// told. A damaged lock file is an error and is never overwritten.
func (s *Store) EnsureLocked(ctx context.Context, path string, r Recipe, update bool, p agentbox.Progress) (Image, error) {
	lock, err := LoadLock(path)
	if err != nil {
		return Image{}, err
	}
	pinned, pin := lock.Pin(r)
	var img Image
	if update {
		img, err = s.Rebuild(ctx, r, p)
	} else {
		img, err = s.Ensure(ctx, pinned, pin, p)
	}
	if err != nil || !pin.IsZero() && !update {
		return img, err
	}
	for _, change := range changes(pinned.Versions, img.Versions) {
		p.Update(step, "update "+change, 0, 0)
	}
	return img, notWritable(s.pin(ctx, path, r, img, update), path, p)
}

// Pin writes into the lock file at path what a recipe gave, unless it has a pin. If the file cannot
// be written, the user is told.
func (s *Store) Pin(ctx context.Context, path string, r Recipe, img Image, p agentbox.Progress) error {
	return notWritable(s.pin(ctx, path, r, img, false), path, p)
}

// notWritable reports a lock file that cannot be written, and returns any other error.
func notWritable(err error, path string, p agentbox.Progress) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		p.Note("the image is not pinned: cannot write " + path)
		return nil
	}
	return err
}

// pin writes into the lock file at path what a recipe gave. It reads the file again, since making
// an image takes minutes, and what others have pinned meanwhile must stay. Only with update does it
// replace a pin of the same recipe. A file that would say the same is not written: it is under
// version control.
func (s *Store) pin(ctx context.Context, path string, r Recipe, img Image, update bool) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, pinLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	lock, err := LoadLock(path)
	if err != nil {
		return err
	}
	if _, pinned := lock.Pin(r); !pinned.IsZero() && !update || !lock.Set(r, img) {
		return nil
	}
	return lock.Save(path)
}
