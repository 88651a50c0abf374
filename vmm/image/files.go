package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Names in a store's directory:
//
//	images/<hex>/image.erofs    the image
//	images/<hex>/image.json     its description (Image), with Lazy set if image.erofs is not here
//	images/<hex>/checked.json   the identity of the file when its digest was last computed
//	images/<hex>/trace.json     the blocks of a lazy image, in the order in which a box first read them
//	images/<hex>/received.json  from where the bytes of the image came
//	recipes/<key>               the digest of the image that a recipe gave here
//	locks/<key>                 held while a recipe is built
//	locks/tmp                   held while directories in tmp and images are made, moved or removed
//	locks/pins                  held while a lock file of a repository is read and replaced
//	tmp/<random>/               a build; the directory itself is locked while the build runs
//	tmp/<random>/bootstrap      a link to the directory outside of the store where mmdebstrap unpacks
const (
	imagesDir  = "images"
	recipesDir = "recipes"
	locksDir   = "locks"
	tmpDir     = "tmp"

	imageFileName     = "image.erofs"
	imageMetaName     = "image.json"
	imageCheckName    = "checked.json"
	imageTraceName    = "trace.json"
	imageReceivedName = "received.json"
	tmpLockName       = "tmp"
	pinLockName       = "pins"
)

// writeFile replaces a file. Its content and its name are durable when writeFile returns.
func writeFile(path string, data []byte) error {
	return hostError(errors.Join(durable.WriteFile(path, data, 0o644), durable.SyncDir(filepath.Dir(path))))
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'))
}

// writeSidecar writes a file beside an image, which must be here.
func (s *Store) writeSidecar(d agentbox.Digest, name string, v any) error {
	return writeJSON(filepath.Join(s.imageDir(d), name), v)
}

// beside reads a file beside an image that only saves work. A file that is missing or cannot be
// read gives the zero value.
func beside[T any](s *Store, d agentbox.Digest, name string) T {
	var v, zero T
	if durable.ReadJSON(filepath.Join(s.imageDir(d), name), &v) != nil {
		return zero
	}
	return v
}

// hostError adds codes to errors of this host's files: NoSpace for a full disk or an exceeded
// quota, Missing if permission is denied. It returns other errors, and those with a code, as they
// are.
func hostError(err error) error {
	var known *agentbox.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return agentbox.Classify(agentbox.NoSpace, "no space left for images: %w", err).
			WithHint("free some with `agentbox image rm` or `agentbox prune`")
	case errors.Is(err, fs.ErrPermission):
		return agentbox.Errorf(agentbox.Missing, "not allowed: %w", err)
	}
	return err
}

// flock is durable.Lock with the errors of this package. release, or the end of the process,
// unlocks. waiting, which may be nil, is called once if the lock is held.
func flock(ctx context.Context, path string, waiting func()) (release func() error, err error) {
	release, err = durable.Lock(ctx, path, waiting)
	return release, hostError(err)
}
