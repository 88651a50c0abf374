package cachestore

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// Get returns the bytes of a piece (a chunk or an encoded manifest), checked against its digest by
// SHA-256, because others rely on them. max is in bytes; the error for a longer piece is Corrupt.
// It is NotFound when the piece is not in the store, and Corrupt when it is damaged, which removes
// it from the index. Get makes a Store a Source. The caller owns the bytes.
func (s *Store) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return s.read(ctx, d, max, nil, blob.Check)
}

// Has reports whether a piece is claimed. It reads no file, so the piece may turn out to be
// damaged. Unless it is held, it may be gone a moment later.
func (s *Store) Has(d agentbox.Digest) (bool, error) {
	_, ok, err := s.index.Chunk(d)
	return ok, err
}

// maxLookups bounds how often a reader looks again because gc has moved the chunk that it was about
// to read, so that claims that keep changing cannot delay it forever.
const maxLookups = 8

// check is Corrupt unless bytes match a digest: blob.Check or Store.checkFast.
type check func(agentbox.Digest, []byte) error

// read is Get with a buffer that it may use for the result.
//
// A chunk that cannot be read is damaged only if the index still has the same location for it. gc
// removes claims before it frees space, so otherwise the chunk was moved or removed meanwhile.
func (s *Store) read(ctx context.Context, d agentbox.Digest, max int, buf []byte, check check) ([]byte, error) {
	var last index.Location
	var lastErr error
	for range maxLookups {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, ok, err := s.index.Chunk(d)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, notFound("%s is not in the store", d.Short())
		}
		if int64(p.Size) > int64(max) {
			return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, not at most %d", d.Short(), p.Size, max)
		}
		if lastErr != nil && p == last {
			// The claim has not changed, so the chunk was not moved.
			return nil, s.damage(d, p, lastErr)
		}
		b, err := s.readLocation(d, p, buf, check)
		if err == nil {
			return b, nil
		}
		last, lastErr = p, err
	}
	return nil, lastErr
}

// readLocation reads, decodes and checks the piece at p. Its errors are for isDataLost.
func (s *Store) readLocation(d agentbox.Digest, p index.Location, buf []byte, check check) ([]byte, error) {
	buf, err := s.readRaw(d, p, buf)
	if err != nil {
		return nil, err
	}
	b, err := s.codec.Decode(buf, p.Encoding, int(p.Size))
	if err != nil {
		return nil, err
	}
	return b, check(d, b)
}

// readStored is the stored form of the piece at p, checked. Its errors are readLocation's.
func (s *Store) readStored(d agentbox.Digest, p index.Location) ([]byte, error) {
	stored, err := s.readRaw(d, p, nil)
	if err != nil {
		return nil, err
	}
	b, err := s.codec.Decode(stored, p.Encoding, int(p.Size))
	if err != nil {
		return nil, err
	}
	return stored, blob.Check(d, b)
}

// readRaw reads the stored form of the piece at p, into buf if that is large enough. The index and
// packs bound p.Stored by blob.MaxPiece. The error is Corrupt when the file ends too early.
func (s *Store) readRaw(d agentbox.Digest, p index.Location, buf []byte) ([]byte, error) {
	f, err := s.handles.get(keyOf(p))
	if err != nil {
		return nil, err
	}
	defer s.handles.put(f)
	if cap(buf) < int(p.Stored) {
		buf = make([]byte, p.Stored)
	}
	buf = buf[:p.Stored]
	if n, err := f.ReadAt(buf, p.Off); n < len(buf) {
		if errors.Is(err, io.EOF) {
			err = agentbox.Errorf(agentbox.Corrupt, "%s: its file ends before it", d.Short())
		}
		return nil, err
	}
	return buf, nil
}

// isDataLost reports whether an error means that the bytes are gone. Others say nothing.
func isDataLost(err error) bool {
	return agentbox.CodeOf(err) == agentbox.Corrupt || isIO(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF)
}
