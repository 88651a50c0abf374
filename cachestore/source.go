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

// Source provides pieces (chunks and encoded manifests) from elsewhere: a directory, a peer, or an
// upstream. A Store is one. A Source that can do better than one piece after the other also
// implements Sessions. Each implementation must pass storetest.TestSource.
type Source interface {
	// Get returns the decoded bytes of a piece, at most max of them. It is called concurrently, for
	// different pieces. Callers check the bytes against the digest, so a Source may return wrong
	// bytes, but it must return when ctx ends. The error is NotFound when it does not have the
	// piece; after any other error a retry may succeed.
	Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error)
}

// Directory is a Source of files named by their digests (64 hexadecimal digits without a prefix),
// decoded. Its value is the path of the directory. Store.Export writes one.
type Directory string

// Get reads a piece; see File.
func (dir Directory) Get(_ context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return dir.File(d.Hex(), max)
}

// File reads a file of the directory. The error is NotFound if there is none, and Corrupt if it is
// longer than max bytes or not a regular file: the directory is not trusted.
func (dir Directory) File(name string, max int) ([]byte, error) {
	path := filepath.Join(string(dir), name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO holds nobody up
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound("%s is not in %s", name, dir)
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

// Export writes a blob's manifest and chunks into an existing directory, in the form that Directory
// reads. It skips pieces that are there in their full size, so that one directory can hold many
// blobs and an interrupted export continues. It hashes every piece with SHA-256. The error is
// NotFound when a piece is not in the store, so a lazy image has to be completed first. progress,
// which may be nil, receives the number of pieces so far.
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
		// Not synced: after a power cut, a wrong file has another size or another digest.
		if err := durable.Replace(name, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fetch gets one piece from a Source and verifies it: the error is Corrupt for more than max bytes
// or another digest. Chunks of a Session are checked by filler.arrived instead.
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
