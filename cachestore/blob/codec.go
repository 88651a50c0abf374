package blob

import (
	"agentbox/agentbox"

	"github.com/klauspost/compress/zstd"
)

// Encoding says how a piece lies in a file or travels.
type Encoding uint8

// The encodings.
const (
	Plain Encoding = 0
	Zstd  Encoding = 1
)

// worthwhile is the part of its size that compression must save, as a divisor: less is not worth
// the time to undo it.
const worthwhile = 8

// Codec compresses and decompresses pieces. It is safe for use by many goroutines.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec makes a Codec that works on as many pieces at once as the machine has CPUs. It holds
// memory for each of them; one for a process is enough.
func NewCodec() (*Codec, error) {
	// The fastest level: what is stored is compressed once and on the way of somebody who waits.
	// Single segments make every frame say its size, which Decode insists on.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxPiece), zstd.WithDecoderMaxWindow(2*MaxPiece))
	if err != nil {
		return nil, err
	}
	return &Codec{enc: enc, dec: dec}, nil
}

// Encode returns the bytes to store for p: compressed where that saves an eighth, else p itself,
// not a copy.
func (c *Codec) Encode(p []byte) ([]byte, Encoding) {
	out := c.enc.EncodeAll(p, make([]byte, 0, len(p)))
	if len(out) > len(p)-len(p)/worthwhile {
		return p, Plain
	}
	return out, Zstd
}

// Decode undoes Encode. size is what comes out; anything else is Corrupt, and no more than size
// bytes are ever made: the length that the compressed bytes claim is compared before they are
// looked at.
func (c *Codec) Decode(p []byte, e Encoding, size int) ([]byte, error) {
	switch {
	case size < 0 || size > MaxPiece:
		return nil, invalid("a piece of %d bytes is too large", size)
	case e == Plain && len(p) == size:
		return p, nil
	case e != Zstd:
		return nil, invalid("encoding %d, %d bytes for %d", e, len(p), size)
	}
	var h zstd.Header
	if err := h.Decode(p); err != nil {
		return nil, invalid("zstd: %w", err)
	}
	// One frame that says its size, no more: frames could follow each other and add up.
	if !h.HasFCS || h.Skippable || h.FrameContentSize != uint64(size) {
		return nil, invalid("zstd: the frame does not hold %d bytes", size)
	}
	out, err := c.dec.DecodeAll(p, make([]byte, 0, size))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "zstd: %w", err)
	}
	if len(out) != size {
		return nil, invalid("zstd: %d bytes came out, not %d", len(out), size)
	}
	return out, nil
}
