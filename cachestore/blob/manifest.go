package blob

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
)

// Kind is the purpose of a blob. Quotas are per kind; nothing else depends on it.
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

// Info is what a manifest has in addition to the chunks of its blob.
type Info struct {
	Kind      Kind
	MediaType string          // such as application/vnd.erofs; at most 255 bytes
	Parent    agentbox.Digest // the manifest this one was made from, or zero. It keeps nothing alive
	// Trace lists the indices of chunks in the order in which a boot first read them, for
	// prefetching.
	Trace []uint32
}

// Manifest lists the chunks of a blob, in order. Its digest is that of its encoded form. Code that
// builds one must call Check before Encode; DecodeManifest has done so.
type Manifest struct {
	Info
	Size   int64 // bytes of the blob
	Blocks bool  // chunk i is at i*BlockSize; otherwise chunks follow each other
	Chunks []Chunk
}

// manifestMagic begins every manifest. Its last digit is the version.
const manifestMagic = "ABXMAN1\n"

// maxMediaType is in bytes, because one byte encodes its length. maxTrace is four times the blocks
// of an image of 128 GiB. flagBlocks is the bit of the flags for Blocks; all others are zero.
const (
	maxMediaType = 255
	maxTrace     = 1 << 20
	flagBlocks   = 1
)

// Encode returns the only encoding of a manifest, integers big-endian. It does not call Check.
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

// Check returns an error of code Corrupt that describes what is wrong with a manifest, or nil.
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

// checkBlocks and checkStream check that the sizes add up, because readers compute offsets from
// them and allocate as much as they say.
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

// blockSize returns the size of block i in bytes. The last block may be short.
func (m Manifest) blockSize(i int) int {
	return int(min(BlockSize, m.Size-int64(i)*BlockSize))
}

// Data returns the indices of the chunks that are not zeros.
func (m Manifest) Data() []int {
	var out []int
	for i, c := range m.Chunks {
		if !c.Zero() {
			out = append(out, i)
		}
	}
	return out
}

// Stored returns the sum of the sizes of all chunks that are not zeros, counting repeated ones each
// time.
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
