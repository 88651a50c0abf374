package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
)

// checked remembers what a file was like when its digest was computed. A file that still is like
// that has the same bytes, unless somebody who may write the store forged its times.
type checked struct {
	Digest agentbox.Digest `json:"digest"`
	Size   int64           `json:"size"`
	Inode  uint64          `json:"inode"`
	Mtime  int64           `json:"mtime"` // nanoseconds
	Ctime  int64           `json:"ctime"`
}

func statOf(path string) (checked, error) {
	info, err := os.Stat(path)
	if err != nil {
		return checked{}, err
	}
	c := checked{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c.Inode, c.Ctime = st.Ino, changeTime(st)
	}
	return c, nil
}

// open gives an image whose bytes are known to be right. It takes a stat if nothing has changed, a
// full verification if something has.
func (s *Store) open(d agentbox.Digest) (Image, error) {
	img, err := s.describe(d)
	if err != nil {
		return img, err
	}
	now, err := statOf(img.Path)
	if errors.Is(err, fs.ErrNotExist) && img.Lazy != nil {
		return img, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, corrupt(d, "its file is gone")
	}
	if err != nil {
		return Image{}, hostError(err)
	}
	if now.Size != img.Size {
		return Image{}, corrupt(d, fmt.Sprintf("its file has %d bytes instead of %d", now.Size, img.Size))
	}
	var was checked
	b, err := os.ReadFile(filepath.Join(s.imageDir(d), imageCheckName))
	if err == nil && json.Unmarshal(b, &was) == nil {
		now.Digest = d
		if was == now {
			return img, nil
		}
	}
	return img, s.Verify(d)
}

// Verify reads the whole image and compares its digest.
func (s *Store) Verify(d agentbox.Digest) error {
	path := filepath.Join(s.imageDir(d), imageFileName)
	before, err := statOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		if img, err := s.describe(d); err != nil || img.Lazy != nil {
			return err // what is not here is verified as it comes
		}
		return corrupt(d, "its file is gone")
	}
	if err != nil {
		return hostError(err)
	}
	got, err := digestFile(path)
	if err != nil {
		return hostError(err)
	}
	if got != d {
		return corrupt(d, "its bytes have changed: they are now "+got.Short())
	}
	before.Digest = d
	return writeJSON(filepath.Join(s.imageDir(d), imageCheckName), before)
}

func digestFile(path string) (agentbox.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return agentbox.Digest{}, err
	}
	defer f.Close()
	d, _, err := agentbox.DigestOf(f)
	return d, err
}

// Distrust makes the next who opens an image read all of it.
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

func (e *DamagedError) Error() string { return e.err.Error() }
func (e *DamagedError) Unwrap() error { return e.err }

func corrupt(d agentbox.Digest, why string) error {
	return &DamagedError{d, agentbox.Errorf(agentbox.Corrupt, "image %s is damaged: %s", d.Short(), why).
		WithHint("remove it with `agentbox image rm %s`; it is made again when it is needed", d.Short())}
}
