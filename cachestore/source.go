package cachestore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore/blob"
)

// Source has pieces, chunks and encoded manifests, somewhere else: in a directory, with a peer,
// upstream. A Store is one. A Source that can do better than one piece after the other is also a
// Sessions. storetest.TestSource is what each must pass.
type Source interface {
	// Get returns the decoded bytes of a piece, at most max of them. It is called from many
	// goroutines, for different pieces. Callers check the bytes against the digest, so a Source may
	// be wrong but not silent: it returns when ctx ends. NotFound means that it does not have the
	// piece; any other error that asking again may help.
	Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error)
}

// Directory is a Source of files named by their digests (64 hexadecimal digits, without prefix),
// decoded. Its value is the directory's path. Export writes one.
type Directory string

// Get reads a piece: see File.
func (dir Directory) Get(_ context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return dir.File(d.Hex(), max)
}

// File reads a file of the directory. NotFound if there is none; Corrupt if it is longer than max
// bytes or not a regular file: what is in a directory may be of anybody's making.
func (dir Directory) File(name string, max int) ([]byte, error) {
	path := filepath.Join(string(dir), name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO holds nobody up
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent("%s is not in %s", name, dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, agentbox.Errorf(agentbox.Corrupt, "%s is not a regular file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(b) > max {
		err = agentbox.Errorf(agentbox.Corrupt, "%s has more than %d bytes", path, max)
	}
	return b, err
}

// Export writes a blob's manifest and chunks into a directory that a Directory reads, which must
// exist. Pieces that are there in their size are not written again, so one directory can hold many
// blobs, and an interrupted export goes on. Every piece is hashed by SHA-256. NotFound when one of
// them is not here: a lazy image has to be completed first. progress, which may be nil, is told how
// many of the pieces are there.
func (s *Store) Export(ctx context.Context, manifest agentbox.Digest, dir string, progress func(done, total int)) error {
	m, err := s.Manifest(ctx, manifest)
	if err != nil {
		return err
	}
	pieces := []blob.Chunk{{Digest: manifest, Size: len(m.Encode())}}
	for _, i := range m.Data() {
		pieces = append(pieces, m.Chunks[i])
	}
	for i, c := range pieces {
		if progress != nil {
			progress(i, len(pieces))
		}
		name := filepath.Join(dir, c.Digest.Hex())
		if info, err := os.Stat(name); err == nil && info.Size() == int64(c.Size) {
			continue
		}
		b, err := s.Get(ctx, c.Digest, blob.MaxPiece)
		if err != nil {
			return err
		}
		// It is not synced: what a power cut leaves of it has another size, or another digest.
		if err := durable.Replace(name, b, 0o644); err != nil {
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
