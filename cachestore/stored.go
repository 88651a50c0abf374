package cachestore

import (
	"context"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// Piece is a chunk or an encoded manifest as it is stored. blob.Codec.Decode undoes the encoding.
type Piece struct {
	Bytes    []byte
	Encoding blob.Encoding
	Size     int // decoded
}

// ReadStored returns a piece as it is on disk, neither decoded nor hashed. Unlike Get, it also
// returns pieces that were written a moment ago and are not flushed yet. It may use buf for the
// result. The error is NotFound when the piece is not in the store.
//
// It serves peers, which decode and hash what they receive, so doing it here as well would cost the
// sender most of its time. The peer finds a damaged piece; here the next Verify does.
func (s *Store) ReadStored(ctx context.Context, d agentbox.Digest, buf []byte) (Piece, error) {
	var last index.Location
	var lastErr error
	for range maxLookups {
		if err := ctx.Err(); err != nil {
			return Piece{}, err
		}
		p, ok, err := s.locate(d)
		if err != nil {
			return Piece{}, err
		}
		if !ok || lastErr != nil && p == last {
			return Piece{}, notFound("%s is not in the store", d.Short())
		}
		if buf, err = s.readRaw(d, p, buf); err == nil {
			return Piece{Bytes: buf, Encoding: p.Encoding, Size: int(p.Size)}, nil
		}
		last, lastErr = p, err
	}
	return Piece{}, lastErr
}

// Bitmap reports for which chunks ReadStored would succeed: bit i%8 of byte i/8, the lowest first.
// Chunks of zeros count as present.
func (s *Store) Bitmap(m blob.Manifest) ([]byte, error) {
	bits := make([]byte, (len(m.Chunks)+7)/8)
	for i, c := range m.Chunks {
		ok := c.Zero()
		if !ok {
			var err error
			if _, ok, err = s.locate(c.Digest); err != nil {
				return nil, err
			}
		}
		if ok {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits, nil
}

// locate returns the location of a piece, whether it is claimed or only written.
func (s *Store) locate(d agentbox.Digest) (index.Location, bool, error) {
	if p, ok := s.unflushed.Load(d); ok {
		return p.(index.Location), true, nil
	}
	return s.index.Chunk(d)
}
