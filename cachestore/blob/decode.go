package blob

import (
	"encoding/binary"

	"agentbox/agentbox"
)

// DecodeManifest decodes what Encode wrote and nothing else: Encode returns the same bytes for
// whatever it accepts, and Check accepts it too. All other input is an error of code Corrupt. It
// allocates no more than a small multiple of len(b).
func DecodeManifest(b []byte) (Manifest, error) {
	if len(b) > MaxManifest {
		return Manifest{}, invalid("manifest: %d bytes, at most %d", len(b), MaxManifest)
	}
	c := &cursor{b: b}
	if string(c.take(len(manifestMagic))) != manifestMagic {
		return Manifest{}, invalid("not a manifest of version 1")
	}
	flags := c.byte()
	m := Manifest{Blocks: flags&flagBlocks != 0}
	m.Kind, m.MediaType = Kind(c.text()), c.text()
	m.Parent = c.digest()
	m.Size = int64(c.uint64())
	chunks, trace := int64(c.uint32()), int64(c.uint32())
	each := int64(len(agentbox.Digest{}))
	if !m.Blocks {
		each += 4
	}
	if c.failed || flags > flagBlocks || chunks*each+trace*4 != int64(len(c.b)) {
		return Manifest{}, invalid("manifest: %d bytes do not hold %d chunks and a trace of %d", len(b), chunks, trace)
	}
	m.readTables(c, int(chunks), int(trace))
	return m, m.Check()
}

// readTables reads chunks and trace, whose numbers the caller has compared with the bytes left.
func (m *Manifest) readTables(c *cursor, chunks, trace int) {
	m.Chunks = make([]Chunk, chunks)
	for i := range m.Chunks {
		m.Chunks[i].Digest = c.digest()
		if m.Blocks {
			m.Chunks[i].Size = m.blockSize(i)
		} else {
			m.Chunks[i].Size = int(c.uint32())
		}
	}
	for range trace {
		m.Trace = append(m.Trace, c.uint32())
	}
}

// cursor reads from the front of b. Once b is exhausted, it returns zeros and failed is set.
type cursor struct {
	b      []byte
	failed bool
}

// take returns the next n bytes, or zeros when fewer are left.
func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.failed, c.b = true, nil
		return make([]byte, n)
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) byte() byte     { return c.take(1)[0] }
func (c *cursor) text() string   { return string(c.take(int(c.byte()))) }
func (c *cursor) uint32() uint32 { return binary.BigEndian.Uint32(c.take(4)) }
func (c *cursor) uint64() uint64 { return binary.BigEndian.Uint64(c.take(8)) }

func (c *cursor) digest() agentbox.Digest { return agentbox.Digest(c.take(len(agentbox.Digest{}))) }
