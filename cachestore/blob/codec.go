package blob

import (
	"agentbox/agentbox"

	"github.com/klauspost/compress/zstd"
)

// Encoding is the form of a piece in a file or in transit.
type Encoding uint8

// The encodings.
const (
	Plain Encoding = 0
	Zstd  Encoding = 1
)

// minSavingDivisor is a divisor: compression must save this part of the size. Less is not worth the
// time to decompress.
const minSavingDivisor = 8

// Codec compresses and decompresses pieces. It is safe for concurrent use.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec makes a Codec that works on as many pieces at once as the machine has CPUs. It holds
// memory for each of them, so one per process is enough.
func NewCodec() (*Codec, error) {
	// The fastest level, because callers wait while their data is compressed. Single segments make
	// every frame contain its size, which Decode requires.
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

// Encode returns the bytes to store for p: compressed where that saves an eighth, otherwise p
// itself, not a copy.
func (c *Codec) Encode(p []byte) ([]byte, Encoding) {
	out := c.enc.EncodeAll(p, make([]byte, 0, len(p)))
	if len(out) > len(p)-len(p)/minSavingDivisor {
		return p, Plain
	}
	return out, Zstd
}

// Decode undoes Encode. size is the decoded size in bytes; any other result is an error of code
// Corrupt. It never produces more than size bytes, because it compares the size in the frame before
// it decompresses anything. For Plain it returns p itself.
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
	// Exactly one frame, which contains its size: the output of several frames would add up.
	if !h.HasFCS || h.Skippable || h.FrameContentSize != uint64(size) {
		return nil, invalid("zstd: the frame does not hold %d bytes", size)
	}
	out, err := c.dec.DecodeAll(p, make([]byte, 0, size))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "zstd: %w", err)
	}
	if len(out) != size {
		return nil, invalid("zstd: decoded %d bytes, not %d", len(out), size)
	}
	return out, nil
}
