package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// checked has the identity of a file when its digest was computed. A file with the same identity
// has the same bytes, unless somebody who can write to the store forged its times.
type checked struct {
	Digest agentbox.Digest `json:"digest"`
	durable.Identity
}

// open returns an image whose bytes are known to be right. That takes one stat if nothing has
// changed. Otherwise it reads the whole file and compares its digest. The file is identified before
// it is read, so the next call notices a change in between. The blocks of a lazy image are verified
// as they come, so open does not look at them. Code NotFound, or a *DamagedError, with an image
// that has its digest at least.
func (s *Store) open(d agentbox.Digest) (Image, error) {
	img, err := s.describe(d)
	if err != nil {
		return Image{Digest: d}, err
	}
	now, err := durable.Identify(img.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && img.Lazy != nil:
		return img, nil
	case errors.Is(err, fs.ErrNotExist):
		return img, corrupt(d, "its file is gone")
	case err != nil:
		return Image{}, hostError(err)
	case now.Size != img.Size:
		return img, corrupt(d, fmt.Sprintf("its file has %d bytes instead of %d", now.Size, img.Size))
	case beside[checked](s, d, imageCheckName) == checked{d, now}:
		return img, nil
	}
	got, err := agentbox.DigestFile(img.Path)
	if err != nil {
		return img, hostError(err)
	}
	if got != d {
		return img, corrupt(d, "its bytes have changed: they are now "+got.Short())
	}
	return img, s.writeSidecar(d, imageCheckName, checked{d, now})
}

// Distrust makes the next open read and verify the whole file. It is called when the store of
// chunks, which shares the file, has found damage.
func (s *Store) Distrust(d agentbox.Digest) error {
	err := os.Remove(filepath.Join(s.imageDir(d), imageCheckName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hostError(err)
}

// DamagedError means that an image in the store is damaged. Its code is Corrupt.
type DamagedError struct {
	Digest agentbox.Digest
	err    *agentbox.Error
}

func (d *DamagedError) Error() string { return d.err.Error() }

// Unwrap returns the *agentbox.Error.
func (d *DamagedError) Unwrap() error { return d.err }

func corrupt(d agentbox.Digest, why string) error {
	return &DamagedError{d, agentbox.Errorf(agentbox.Corrupt, "image %s is damaged: %s", d.Short(), why).
		WithHint("remove it with `agentbox image rm %s`; it is made again when it is needed", d.Short())}
}
