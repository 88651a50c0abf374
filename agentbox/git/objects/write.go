package objects

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"hash"
	"io"
	"slices"
)

// PackWriter writes a pack. After an error it must not be used.
type PackWriter struct {
	to  *bufio.Writer
	sum hash.Hash
	out io.Writer // both
	in  *bufio.Reader

	stored bool                 // compress nothing
	z      map[int]*zlib.Writer // by level: each has half a megabyte
}

// NewPackWriter begins a pack of n objects.
func NewPackWriter(w io.Writer, n int) (*PackWriter, error) {
	p := &PackWriter{to: bufio.NewWriterSize(w, 1<<18), sum: sha1.New(), in: bufio.NewReaderSize(nil, sample), z: map[int]*zlib.Writer{}}
	p.out = io.MultiWriter(p.sum, p.to)
	_, err := p.out.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(n)))
	return p, err
}

// Write adds an object of a size.
func (p *PackWriter) Write(kind Kind, size int, content io.Reader) error {
	if _, err := p.out.Write(entryHead(kind, size)); err != nil {
		return err
	}
	return p.deflate(io.LimitReader(content, int64(size)))
}

// WriteDelta adds an object that builds on another one, which need not be in the pack (Delta).
func (p *PackWriter) WriteDelta(base ID, delta []byte) error {
	if _, err := p.out.Write(append(entryHead(nameDelta, len(delta)), base[:]...)); err != nil {
		return err
	}
	return p.deflate(bytes.NewReader(delta))
}

// Close ends the pack.
func (p *PackWriter) Close() error {
	_, _ = p.to.Write(p.sum.Sum(nil)) // its error stays, and Flush returns it
	return p.to.Flush()
}

// WritePack writes a pack of whole objects, not compressed: for a reader on this machine.
func WritePack(w io.Writer, all []Object) error {
	out, err := NewPackWriter(w, len(all))
	out.stored = true
	for _, o := range all {
		if err == nil {
			err = out.Write(o.Kind, len(o.Content), bytes.NewReader(o.Content))
		}
	}
	if err == nil {
		err = out.Close()
	}
	return err
}

// entryHead is what an object of a pack begins with: its kind and size.
func entryHead(kind Kind, size int) (head []byte) {
	b, n := byte(kind)<<4|byte(size&15), size>>4
	for ; n > 0; n >>= 7 {
		head, b = append(head, b|0x80), byte(n&0x7f)
	}
	return append(head, b)
}

// sample is how much of an object has to become smaller for the whole to be compressed, in bytes.
const sample = 32 << 10

// deflate writes what follows a head. What does not become smaller, as pictures do not, is not compressed:
// that takes most of the time.
func (p *PackWriter) deflate(content io.Reader) error {
	p.in.Reset(content)
	first, _ := p.in.Peek(sample) // its error comes again
	level := zlib.BestSpeed
	if p.stored || len(first) == sample && p.deflatedSize(first) > sample*31/32 {
		level = zlib.NoCompression
	}
	z := p.deflater(p.out, level)
	if _, err := io.Copy(z, p.in); err != nil {
		return err
	}
	return z.Close()
}

func (p *PackWriter) deflater(w io.Writer, level int) *zlib.Writer {
	z := p.z[level]
	if z == nil {
		z, _ = zlib.NewWriterLevel(w, level) // the level is one
		p.z[level] = z
	}
	z.Reset(w)
	return z
}

func (p *PackWriter) deflatedSize(text []byte) int {
	var b bytes.Buffer
	z := p.deflater(&b, zlib.BestSpeed)
	_, _ = z.Write(text) // a buffer takes all
	_ = z.Close()
	return b.Len()
}

// maxMiddle is how much of a file may differ from its last version, in bytes, between the first and the
// last difference: git finds a smaller delta of one with more.
const maxMiddle = 16 << 10

// Delta makes a delta of what two versions begin with, what is new, and what they end with; ok is false if
// git would make a smaller one.
func Delta(old, now []byte) (d []byte, ok bool) {
	begin := common(old, now, func(b []byte, from, n int) []byte { return b[from : from+n] })
	end := common(old[begin:], now[begin:], func(b []byte, from, n int) []byte { return b[len(b)-from-n : len(b)-from] })
	middle := now[begin : len(now)-end]
	if len(middle) > maxMiddle {
		return nil, false
	}
	d = binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(old))), uint64(len(now)))
	d = appendCopy(d, 0, begin)
	for part := range slices.Chunk(middle, 127) {
		d = append(append(d, byte(len(part))), part...)
	}
	return appendCopy(d, len(old)-end, end), true
}

// common counts the bytes that two texts have in common, as part gives them.
func common(a, b []byte, part func(b []byte, from, n int) []byte) (n int) {
	for step := 4 << 10; step > 0; step /= 8 { // a page, 512, 64, 8 and single bytes
		for n+step <= min(len(a), len(b)) && bytes.Equal(part(a, n, step), part(b, n, step)) {
			n += step
		}
	}
	return n
}

// appendCopy adds to a delta that bytes of the last version follow.
func appendCopy(d []byte, from, size int) []byte {
	for size > 0 {
		n := min(size, 1<<24-1)
		d = append(d, 0xff, byte(from), byte(from>>8), byte(from>>16), byte(from>>24), byte(n), byte(n>>8), byte(n>>16))
		from, size = from+n, size-n
	}
	return d
}
