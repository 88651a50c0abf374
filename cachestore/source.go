package cachestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Source has pieces, chunks and encoded manifests, somewhere else: in a directory, with a peer,
// upstream. A Store is one. A Source that can do better than one piece after the other is also a
// Sessions. storetest.TestSource is what each must pass.
type Source interface {
	// Get gives the decoded bytes of a piece, at most max of them. It is called from many
	// goroutines, for different pieces. Callers check the bytes against the digest, so a Source may
	// be wrong but not silent: it returns when ctx ends. NotFound means that it does not have the
	// piece; any other error that asking again may help.
	Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error)
}

// Directory is a Source of files named by their digests (64 hexadecimal digits, without prefix),
// decoded. Its value is the directory's path. Export writes one.
type Directory string

// Get reads a file. Corrupt when it is longer than max: what is in a directory may be of anybody's
// making.
func (dir Directory) Get(_ context.Context, d agentbox.Digest, max int) ([]byte, error) {
	name := filepath.Join(string(dir), d.Hex())
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, absent("%s is not in %s", d.Short(), dir)
	case err != nil:
		return nil, err
	case info.Size() > int64(max):
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, not at most %d", name, info.Size(), max)
	}
	return os.ReadFile(name)
}

// Export writes a blob's manifest and chunks into a directory that a Directory reads, which must
// exist. Pieces that are there are not written again, so one directory can hold many blobs, and an
// export that was interrupted goes on. Every piece is hashed by SHA-256. NotFound when one of them
// is not here: a lazy image has to be completed first. progress, which may be nil, is told how many
// of the pieces are there.
func (s *Store) Export(ctx context.Context, manifest agentbox.Digest, dir string, progress func(done, total int)) error {
	m, err := s.Manifest(ctx, manifest)
	if err != nil {
		return err
	}
	pieces := []agentbox.Digest{manifest}
	for _, i := range m.Data() {
		pieces = append(pieces, m.Chunks[i].Digest)
	}
	for i, d := range pieces {
		if progress != nil {
			progress(i, len(pieces))
		}
		name := filepath.Join(dir, d.Hex())
		if _, err := os.Stat(name); err == nil {
			continue
		}
		b, err := s.Get(ctx, d, blob.MaxPiece)
		if err != nil {
			return err
		}
		// By way of another name: a file that has a digest for a name is whole, for those that read
		// the directory meanwhile. It is not synced; its digest tells.
		if err := os.WriteFile(name+".part", b, 0o644); err != nil {
			return err
		}
		if err := os.Rename(name+".part", name); err != nil {
			return err
		}
	}
	return nil
}

// fetch asks a Source for one piece and believes nothing it says: at most max bytes, with that
// digest, or Corrupt. Chunks that come by a Session are checked by filler.arrived instead.
func fetch(ctx context.Context, src Source, d agentbox.Digest, max int) ([]byte, error) {
	b, err := src.Get(ctx, d, max)
	if err != nil {
		return nil, err
	}
	if len(b) > max {
		return nil, agentbox.Errorf(agentbox.Corrupt, "a source gave %d bytes for %s, at most %d were asked for", len(b), d.Short(), max)
	}
	if err := blob.Check(d, b); err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "a source gave wrong bytes: %w", err)
	}
	return b, nil
}
