package image

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"agentbox/agentbox"
)

// EnsureLocked gives the image of a recipe as the lock file at path pins it, and pins it there if
// it does not yet. With update it makes the image anew and replaces the pin. Where the lock file
// cannot be written because the directory is read-only, the image is given all the same, unpinned,
// and the user is told. path is agentbox.lock's; it need not exist. A lock file that is damaged is
// an error, and is not written over.
func (s *Store) EnsureLocked(ctx context.Context, path string, r Recipe, update bool, p agentbox.Progress) (Image, error) {
	lock, err := LoadLock(path)
	if err != nil { // nor does an update write over what a person can still restore
		return Image{}, err
	}
	pinned, pin := lock.Pin(r)
	var img Image
	if update {
		img, err = s.Rebuild(ctx, r, p)
	} else {
		img, err = s.Ensure(ctx, pinned, pin, p)
	}
	if err != nil || !pin.IsZero() && !update { // what has the same packages leaves the pin as it is
		return img, err
	}
	for _, change := range changes(pinned.Versions, img.Versions) {
		p.Move(step, "update "+change, 0, 0)
	}
	// A file that would say the same is not written: it is under version control.
	if !lock.Set(r, img) {
		return img, nil
	}
	err = lock.Save(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		p.Say("the image is not pinned: cannot write " + path)
		return img, nil
	}
	return img, err
}
