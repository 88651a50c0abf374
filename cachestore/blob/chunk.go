package blob

import (
	"bytes"
	"crypto/sha256"

	"agentbox/agentbox"
)

// Sizes in bytes. With small blocks, two images have more of them in common and a lazy image waits
// for less; large ones cost less to name and request. Chunks of streams are larger, because a
// stream is read from one end to the other.
const (
	BlockSize = 512 << 10 // of every chunk of an image but the last
	MinChunk  = 256 << 10 // of a stream, except its last chunk
	AvgChunk  = 1 << 20
	MaxChunk  = 4 << 20

	// MaxManifest limits an encoded manifest. It is enough for an image of 256 GiB.
	MaxManifest = 17 << 20
	// MaxPiece is the largest size of anything with a digest of its own: a chunk or a manifest.
	MaxPiece = MaxManifest
)

// Chunk names a piece of a blob. The zero digest stands for Size zero bytes, which are not stored.
type Chunk struct {
	Digest agentbox.Digest
	Size   int
}

// Zero reports whether the chunk is all zeros.
func (c Chunk) Zero() bool { return c.Digest.IsZero() }

// Sum returns the digest of a piece.
func Sum(p []byte) agentbox.Digest { return sha256.Sum256(p) }

// Check returns an error of code Corrupt unless d is the digest of p.
func Check(d agentbox.Digest, p []byte) error {
	if got := Sum(p); got != d {
		return agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes with the digest %s", d.Short(), len(p), got.Short())
	}
	return nil
}

var zeros [64 << 10]byte

// IsZero reports whether p has no byte but zeros. It compares portions of p with memory that stays
// in the processor's cache.
func IsZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}

// invalid returns an error of code Corrupt, for outside data that is not in our format.
func invalid(format string, args ...any) error {
	return agentbox.Classify(agentbox.Corrupt, format, args...)
}
