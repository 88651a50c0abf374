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

// Stored returns a piece as it lies on disk, neither decoded nor hashed, for somebody who does
// both. It sees more than Get: what a transfer wrote a moment ago and has not made last. buf may be
// used for the answer. NotFound when it is not here.
//
// It serves peers: they decode and hash what they get, so that doing it here too would cost the
// sender most of its time for nothing. A piece that is damaged is found by the peer, and here by
// the next Verify.
func (s *Store) Stored(ctx context.Context, d agentbox.Digest, buf []byte) (Piece, error) {
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
			return Piece{}, absent("%s is not in the store", d.Short())
		}
		if buf, err = s.readRaw(d, p, buf); err == nil {
			return Piece{Bytes: buf, Encoding: p.Encoding, Size: int(p.Size)}, nil
		}
		last, lastErr = p, err
	}
	return Piece{}, lastErr
}

// Bits reports which chunks Stored would give: bit i%8 of byte i/8, the lowest first. Chunks of
// zeros count as here.
func (s *Store) Bits(m blob.Manifest) ([]byte, error) {
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

// locate reports where a piece lies, claimed or only written.
func (s *Store) locate(d agentbox.Digest) (index.Location, bool, error) {
	if p, ok := s.fresh.Load(d); ok {
		return p.(index.Location), true, nil
	}
	return s.index.Chunk(d)
}
