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
//	images/<hex>/image.json     what is known about it (Image); without image.erofs the image is lazy, and says so
//	images/<hex>/checked.json   the file's stat when its digest was last computed
//	images/<hex>/trace.json     the blocks of an image that came lazily, in the order in which a box first read them
//	recipes/<key>               the digest of what a recipe gave here
//	locks/<key>                 held while a recipe is built
//	locks/tmp                   held while directories in tmp are made or cleared
//	locks/pins                  held while a lock file of a repository is read and replaced
//	tmp/<random>/               a build; the directory itself is locked as long as the build runs
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

// writeFile replaces a file for good. The name is durable, too, when it returns.
func writeFile(path string, data []byte) error {
	return hostError(errors.Join(durable.WriteFile(path, data, 0o644), durable.SyncDir(filepath.Dir(path))))
}

// writeJSON replaces a file by a value as indented JSON.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'))
}

// setBeside writes a file beside an image. It is an error where the image is not here.
func (s *Store) setBeside(d agentbox.Digest, name string, v any) error {
	return writeJSON(filepath.Join(s.imageDir(d), name), v)
}

// beside reads a file beside an image that saves work and decides nothing: one that is not there or
// cannot be read is zero.
func beside[T any](s *Store, d agentbox.Digest, name string) T {
	var v, zero T
	if durable.ReadJSON(filepath.Join(s.imageDir(d), name), &v) != nil {
		return zero
	}
	return v
}

// hostError gives errors of this host's files their code and hint. NoSpace for a full disk or an
// exceeded quota, Missing where something may not be read or written. Errors that have a code, and
// others, are returned as they are.
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

// flock is durable.Lock with errors as this package's. The lock is let go by release, and by the
// end of the process. waiting, which may be nil, is called once when somebody else has it.
func flock(ctx context.Context, path string, waiting func()) (release func() error, err error) {
	release, err = durable.Lock(ctx, path, waiting)
	return release, hostError(err)
}
