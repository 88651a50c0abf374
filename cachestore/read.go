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

// Get returns the bytes of a piece, a chunk or an encoded manifest, checked against its digest by
// SHA-256, as others rely on them. max is in bytes; a longer piece is Corrupt. NotFound when it is
// not here, Corrupt when it was and is damaged: from then on it is not here. So a Store is a
// Source. The bytes are the caller's.
func (s *Store) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return s.read(ctx, d, max, nil, blob.Check)
}

// Has reports whether a piece is claimed to be here. It reads no file: the piece may turn out to be
// damaged, and without being held it may be gone a moment later.
func (s *Store) Has(d agentbox.Digest) (bool, error) {
	_, ok, err := s.index.Chunk(d)
	return ok, err
}

// maxLookups bounds how often a reader looks again because gc has moved a chunk that it was about
// to read, so that claims that keep changing cannot keep it for ever.
const maxLookups = 8

// check reports whether bytes are what a digest names, as an error of code Corrupt: blob.Check or
// Store.recognise.
type check func(agentbox.Digest, []byte) error

// read is Get with a buffer that may be used for the answer.
//
// A chunk that cannot be read is damaged only if the index still says that it lies there: gc takes
// claims back before it frees space, so otherwise it was moved or removed meanwhile.
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
			return nil, absent("%s is not in the store", d.Short())
		}
		if int64(p.Size) > int64(max) {
			return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, not at most %d", d.Short(), p.Size, max)
		}
		if lastErr != nil && p == last {
			// It is still claimed to be where it is not: nobody moved it.
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

// readLocation reads, decodes and checks what should lie at p. Its errors are as they came, for
// lostBytes to judge.
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

// readStored reads what lies at p, as it is stored, once it was found to be what d names. Its
// errors are those of readLocation.
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

// readRaw reads what lies at p, as it is stored, into buf when it is large enough: the index and
// packs give no place of more than blob.MaxPiece. A file that ends too early is Corrupt.
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

// lostBytes tells the errors that mean that the bytes are gone from those that say nothing about
// them.
func lostBytes(err error) bool {
	return agentbox.CodeOf(err) == agentbox.Corrupt || isIO(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF)
}
