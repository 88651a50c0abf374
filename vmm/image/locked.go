package image

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

// EnsureLocked gives the image of a recipe as the lock file at path pins it, and pins it there if it does not yet.
// With update it makes the image anew and replaces the pin. Where the lock file cannot be written because the directory
// is read-only, the image is given all the same, unpinned, and progress is told.
func (s *Store) EnsureLocked(ctx context.Context, path string, r Recipe, update bool, p Progress) (Image, error) {
	lock, err := LoadLock(path)
	if err != nil && !update {
		return Image{}, err
	}
	if err != nil {
		lock = &Lock{} // a damaged one is what an update is asked to replace
	}
	img, err := s.ensureFrom(ctx, lock, r, update, p)
	if err != nil {
		return img, err
	}
	for _, change := range lock.Changes(r, img) {
		p.tell(Event{Step: "update", Detail: change})
	}
	if !lock.Set(r, img) {
		return img, nil
	}
	err = lock.Save(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		p.tell(Event{Step: "unpinned", Detail: "cannot write " + path})
		return img, nil
	}
	return img, err
}

func (s *Store) ensureFrom(ctx context.Context, lock *Lock, r Recipe, update bool, p Progress) (Image, error) {
	if update {
		return s.Rebuild(ctx, r, p)
	}
	r, pin := lock.Pin(r)
	return s.Ensure(ctx, r, pin, p)
}
