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

// checked remembers what a file was like when its digest was computed. A file that still is like
// that has the same bytes, unless somebody who may write the store forged its times.
type checked struct {
	// Of the bytes that the file had when it was like that.
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
	// Cheaper than a digest, and says more in an error.
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
	return img, s.setBeside(d, imageCheckName, checked{d, now})
}

// Distrust makes the next caller that opens an image read all of it. It is for bytes that the store
// of chunks has found damaged, which has the same file. An image that nobody has checked is no
// error.
func (s *Store) Distrust(d agentbox.Digest) error {
	err := os.Remove(filepath.Join(s.imageDir(d), imageCheckName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hostError(err)
}

// DamagedError says that an image that is here is not what it was. It is of code Corrupt.
type DamagedError struct {
	Digest agentbox.Digest
	err    *agentbox.Error
}

// Error implements error; Unwrap gives the *agentbox.Error.
func (e *DamagedError) Error() string { return e.err.Error() }
func (e *DamagedError) Unwrap() error { return e.err }

// corrupt says that an image cannot be used and what brings it back.
func corrupt(d agentbox.Digest, why string) error {
	return &DamagedError{d, agentbox.Errorf(agentbox.Corrupt, "image %s is damaged: %s", d.Short(), why).
		WithHint("remove it with `agentbox image rm %s`; it is made again when it is needed", d.Short())}
}
