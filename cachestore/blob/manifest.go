package blob

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
)

// Kind says what a blob is for. Quotas are per kind; nothing else differs by it.
type Kind string

// The kinds.
const (
	Image     Kind = "image"     // layer 0
	Cache     Kind = "cache"     // layer 1
	Workspace Kind = "workspace" // the base of a workspace disk
	Snapshot  Kind = "snapshot"  // of a task
	Artifact  Kind = "artifact"
)

// Kinds lists them all.
var Kinds = []Kind{Image, Cache, Workspace, Snapshot, Artifact}

// Valid reports whether k is one of Kinds.
func (k Kind) Valid() bool {
	return slices.Contains(Kinds, k)
}

// Info is what a manifest says about its blob besides its bytes.
type Info struct {
	Kind      Kind
	MediaType string          // as application/vnd.erofs; at most 255 bytes
	Parent    agentbox.Digest // the manifest this one was made from, or none. It keeps nothing alive
	// Trace lists the numbers of chunks in the order in which a boot read them first, for fetching
	// them ahead.
	Trace []uint32
}

// Manifest lists the chunks of a blob, in their order. Its digest is that of its encoded form.
// Values made by code go through Check before they are encoded; what DecodeManifest gives has been.
type Manifest struct {
	Info
	Size   int64 // bytes of the blob
	Blocks bool  // chunk i lies at i*BlockSize; else one follows the other
	Chunks []Chunk
}

// manifestMagic begins every manifest; the last digit is its version.
const manifestMagic = "ABXMAN1\n"

// maxMediaType is in bytes: its length is one. maxTrace is four times the blocks of an image of 128
// GiB. flagBlocks is the bit of the flags that stands for Blocks; all others are zero.
const (
	maxMediaType = 255
	maxTrace     = 1 << 20
	flagBlocks   = 1
)

// Encode returns the one form a manifest has (docs/internals/formats.md). It checks nothing:
// Check does.
func (m Manifest) Encode() []byte {
	b := append(make([]byte, 0, 64+36*len(m.Chunks)), manifestMagic...)
	flags := byte(0)
	if m.Blocks {
		flags |= flagBlocks
	}
	b = append(b, flags, byte(len(m.Kind)))
	b = append(b, m.Kind...)
	b = append(b, byte(len(m.MediaType)))
	b = append(b, m.MediaType...)
	b = append(b, m.Parent[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Chunks)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Trace)))
	for _, c := range m.Chunks {
		b = append(b, c.Digest[:]...)
		if !m.Blocks {
			b = binary.BigEndian.AppendUint32(b, uint32(c.Size))
		}
	}
	for _, n := range m.Trace {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// Check returns what is wrong with a manifest, as an error of code Corrupt.
func (m Manifest) Check() error {
	switch {
	case !m.Kind.Valid():
		return invalid("manifest: unknown kind %q", m.Kind)
	case len(m.MediaType) > maxMediaType || !printable(m.MediaType):
		return invalid("manifest: its media type is not text of at most %d bytes", maxMediaType)
	case m.Size < 0 || len(m.Trace) > maxTrace || len(m.Chunks) > math.MaxInt32:
		return invalid("manifest: size %d, %d chunks, a trace of %d", m.Size, len(m.Chunks), len(m.Trace))
	}
	for _, n := range m.Trace {
		if int64(n) >= int64(len(m.Chunks)) {
			return invalid("manifest: its trace names chunk %d of %d", n, len(m.Chunks))
		}
	}
	if m.Blocks {
		return m.checkBlocks()
	}
	return m.checkStream()
}

// checkBlocks and checkStream see that the sizes add up: readers find a chunk's place by them, and
// allocate what they say.
func (m Manifest) checkBlocks() error {
	if want := (m.Size + BlockSize - 1) / BlockSize; int64(len(m.Chunks)) != want {
		return invalid("manifest: %d chunks for %d bytes, not %d", len(m.Chunks), m.Size, want)
	}
	for i, c := range m.Chunks {
		if c.Size != m.blockSize(i) {
			return invalid("manifest: chunk %d has %d bytes", i, c.Size)
		}
	}
	return nil
}

func (m Manifest) checkStream() error {
	var sum int64
	for i, c := range m.Chunks {
		if c.Size <= 0 || c.Size > MaxChunk {
			return invalid("manifest: chunk %d has %d bytes", i, c.Size)
		}
		sum += int64(c.Size)
	}
	if sum != m.Size {
		return invalid("manifest: its chunks have %d bytes, it says %d", sum, m.Size)
	}
	return nil
}

// blockSize is the length of block i: the last one may be short.
func (m Manifest) blockSize(i int) int {
	return int(min(BlockSize, m.Size-int64(i)*BlockSize))
}

// Data lists the numbers of the chunks that are not zeros.
func (m Manifest) Data() []int {
	var out []int
	for i, c := range m.Chunks {
		if !c.Zero() {
			out = append(out, i)
		}
	}
	return out
}

// Stored counts the bytes of chunks that are not zeros, each time they occur.
func (m Manifest) Stored() int64 {
	var n int64
	for _, i := range m.Data() {
		n += int64(m.Chunks[i].Size)
	}
	return n
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
