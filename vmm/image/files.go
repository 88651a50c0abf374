package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
)

// Names in a store's directory:
//
//	images/<hex>/image.erofs    the image
//	images/<hex>/image.json     what is known about it (Image); it is there only if the image is complete
//	images/<hex>/checked.json   the file's stat when its digest was last computed
//	recipes/<key>               the digest of what a recipe gave here
//	locks/<key>                 held by who builds a recipe; locks/tmp by who makes or clears directories in tmp
//	tmp/<random>/               a build; the directory itself is locked as long as the build runs
//	tmp/<random>/bootstrap      a link to the directory outside of the store where mmdebstrap unpacks
const (
	imagesDir  = "images"
	recipesDir = "recipes"
	locksDir   = "locks"
	tmpDir     = "tmp"

	imageFileName  = "image.erofs"
	imageMetaName  = "image.json"
	imageCheckName = "checked.json"
	tmpLockName    = "tmp"
)

// writeFile replaces a file so that a crash leaves the old or the new one.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return hostError(err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return hostError(errors.Join(err, os.Remove(f.Name())))
	}
	return syncDir(filepath.Dir(path))
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'))
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// hostError gives errors of this host's files their code and hint.
func hostError(err error) error {
	var known *agentbox.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return agentbox.Errorf(agentbox.NoSpace, "no space left for images: %w", err).
			WithHint("free some with `agentbox image rm` or `agentbox prune`")
	case errors.Is(err, fs.ErrPermission):
		return agentbox.Errorf(agentbox.Missing, "not allowed: %w", err)
	}
	return err
}
