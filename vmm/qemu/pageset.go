package qemu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sort"
)

// A page set is some of the pages of a larger space (a guest's memory, a disk), in two files:
//
//   - X.pages: the bytes of the pages, packed, region by region in any order of regions;
//   - X.index: which pages they are, where their region begins in X.pages, and a digest per region.
//
// The whole memory of a template, what a saved machine changed of it, and the template's runtime
// layer are page sets, so there is one writer, one reader and one decoder for all. Regions are
// independent, so they are read, hashed, verified and written by all CPUs at once.

// A region is what is read, hashed and written at once, with one digest. recordSize is an encoded
// region: two offsets, the bitmap, the digest.
const (
	pageSize    = 4096
	regionPages = 256
	regionSize  = regionPages * pageSize // 1 MiB
	indexMagic  = "agentbox pages 1\n"
	recordSize  = 8 + 8 + regionPages/8 + sha256.Size
)

// bitmap has one bit per page of a region, the lowest of the first word for the first page.
type bitmap [regionPages / 64]uint64

func (b *bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bitmap) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

func (b *bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// runs are the maximal sequences of pages in b, as byte ranges inside the region.
func (b *bitmap) runs() []extent {
	var runs []extent
	for i := 0; i < regionPages; i++ {
		if !b.has(i) {
			continue
		}
		start := i
		for i < regionPages && b.has(i) {
			i++
		}
		runs = append(runs, extent{int64(start) * pageSize, int64(i-start) * pageSize})
	}
	return runs
}

// region is the pages of one aligned MiB of the space that a set holds. binary.Write puts it on
// disk field by field, so its layout is the format.
type region struct {
	Offset int64  // in the space
	Data   int64  // in X.pages
	Pages  bitmap // at least one
	// Of the pages as they are packed in X.pages.
	Digest [sha256.Size]byte
}

func (r *region) length() int64 { return int64(r.Pages.count()) * pageSize }

// pageIndex is the decoded X.index: regions by ascending Offset, each at most once. It is
// immutable, so any number of goroutines may read it.
type pageIndex struct {
	Space   int64 // size of the space in bytes
	Length  int64 // size of X.pages
	Regions []region
}

// has reports whether the set holds the page at off, a multiple of pageSize.
func (p *pageIndex) has(off int64) bool {
	base := off &^ (regionSize - 1)
	i := sort.Search(len(p.Regions), func(i int) bool { return p.Regions[i].Offset >= base })
	return i < len(p.Regions) && p.Regions[i].Offset == base && p.Regions[i].Pages.has(int(off-base)/pageSize)
}

func (p *pageIndex) encode() []byte {
	var b bytes.Buffer
	b.WriteString(indexMagic)
	for _, v := range []int64{p.Space, p.Length, int64(len(p.Regions))} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	for i := range p.Regions {
		binary.Write(&b, binary.LittleEndian, &p.Regions[i])
	}
	return b.Bytes()
}

// decodeIndex accepts only what encode can have written, so that nobody has to check the result
// again. A template may come from another member of the team. It compares the number of regions
// with the size of b before it allocates them.
func decodeIndex(b []byte) (*pageIndex, error) {
	rest, ok := bytes.CutPrefix(b, []byte(indexMagic))
	if !ok || len(rest) < 24 {
		return nil, errors.New("not a page index")
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(rest[8*i:])) }
	x := &pageIndex{Space: word(0), Length: word(1)}
	n, rest := word(2), rest[24:]
	if x.Space < 0 || x.Space%pageSize != 0 || x.Length < 0 || n < 0 || n > int64(len(rest))/recordSize || n*recordSize != int64(len(rest)) {
		return nil, errors.New("page index with sizes that do not fit")
	}
	x.Regions = make([]region, n)
	if err := binary.Read(bytes.NewReader(rest), binary.LittleEndian, x.Regions); err != nil {
		return nil, err
	}
	return x, x.check()
}

// check verifies what has, readPages and the sinks rely on: ascending aligned regions that hold
// something, pages inside of the space, data inside of X.pages. As the lengths add up to the whole
// file, a digest covers every byte.
func (p *pageIndex) check() error {
	last, total := int64(-1), int64(0)
	for i := range p.Regions {
		r := &p.Regions[i]
		n := r.length()
		switch {
		case r.Offset <= last || r.Offset%regionSize != 0 || n == 0:
			return fmt.Errorf("page index: region %d is out of place", i)
		case r.Data < 0 || r.Data%pageSize != 0 || n > p.Length || r.Data > p.Length-n:
			return fmt.Errorf("page index: region %d lies outside its data", i)
		}
		if runs := r.Pages.runs(); r.Offset > p.Space-runs[len(runs)-1].off-runs[len(runs)-1].len {
			return fmt.Errorf("page index: region %d lies outside its space", i)
		}
		last, total = r.Offset, total+n
	}
	if total != p.Length {
		return fmt.Errorf("page index: %d bytes of pages, but %d of data", total, p.Length)
	}
	return nil
}
