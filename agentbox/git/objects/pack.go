package objects

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
)

// pack is a pack of a repository, and its index of version 2.
type pack struct {
	data, index *os.File
	size        int64 // of data, without its sum
	fanout      [256]uint32
}

const (
	idSize                  = len(ID{})
	fanoutAt, namesAt       = 8, 8 + 256*4
	maxChain                = 4096 // deltas that build on each other; git makes 4095 at most
	maxPackSize       int64 = 1 << 50
)

// openPack opens NAME.pack and NAME.idx.
func openPack(name string) (p *pack, err error) {
	p = &pack{}
	if p.index, err = os.Open(name + ".idx"); err != nil {
		return nil, err
	}
	if p.data, err = os.Open(name + ".pack"); err != nil {
		return nil, errors.Join(err, p.index.Close())
	}
	if err = p.readHead(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s.idx: %w", name, err), p.close())
	}
	return p, nil
}

func (p *pack) readHead() error {
	head := make([]byte, namesAt)
	if _, err := p.index.ReadAt(head, 0); err != nil {
		return err
	}
	if string(head[:fanoutAt]) != "\xfftOc\x00\x00\x00\x02" {
		return errors.New("an index of another version")
	}
	for i := range p.fanout {
		p.fanout[i] = binary.BigEndian.Uint32(head[fanoutAt+4*i:])
		if i > 0 && p.fanout[i] < p.fanout[i-1] {
			return errors.New("its table of bytes does not grow")
		}
	}
	info, err := p.data.Stat()
	if err == nil {
		p.size = info.Size() - int64(idSize)
	}
	return err
}

func (p *pack) close() error { return errors.Join(p.data.Close(), p.index.Close()) }

// find returns where in the pack an object is.
func (p *pack) find(id ID) (at int64, ok bool, err error) {
	from, to := uint32(0), p.fanout[id[0]]
	if id[0] > 0 {
		from = p.fanout[id[0]-1]
	}
	var name ID
	n := int(from) + sort.Search(int(to-from), func(i int) bool {
		if _, readErr := p.index.ReadAt(name[:], int64(namesAt)+int64(int(from)+i)*int64(idSize)); readErr != nil {
			err = readErr
		}
		return bytes.Compare(name[:], id[:]) >= 0
	})
	if err != nil || n >= int(to) {
		return 0, false, err
	}
	if _, err = p.index.ReadAt(name[:], int64(namesAt)+int64(n)*int64(idSize)); err != nil || name != id {
		return 0, false, err
	}
	at, err = p.offset(int64(n))
	return at, err == nil, err
}

// offset is where the nth object of the index is.
func (p *pack) offset(n int64) (int64, error) {
	count := int64(p.fanout[255])
	table := int64(namesAt) + count*int64(idSize+4) // the names and their sums
	var b [8]byte
	if _, err := p.index.ReadAt(b[:4], table+n*4); err != nil {
		return 0, err
	}
	at := binary.BigEndian.Uint32(b[:])
	if at < 1<<31 {
		return int64(at), nil
	}
	if _, err := p.index.ReadAt(b[:], table+count*4+int64(at&(1<<31-1))*8); err != nil {
		return 0, err
	}
	large := binary.BigEndian.Uint64(b[:])
	if large > uint64(maxPackSize) {
		return 0, errors.New("an object at an impossible place")
	}
	return int64(large), nil
}

// packed reads the object at a place of a pack, and what it builds on.
func (s *Store) packed(p *pack, at, most int64, depth int) (Object, error) {
	var deltas [][]byte
	z := inflaters.Get().(*inflater)
	defer inflaters.Put(z)
	for ; depth < maxChain; depth++ {
		if at < packHead || at >= p.size {
			return Object{}, errors.New("an object outside of its pack")
		}
		in := bufio.NewReaderSize(io.NewSectionReader(p.data, at, p.size-at), 1<<16)
		e, err := z.readEntry(in, most)
		if err != nil {
			return Object{}, err
		}
		switch e.kind {
		case offsetDelta:
			deltas, at = append(deltas, e.content), at-e.back
			continue
		case nameDelta:
			o, err := s.read(e.base, most, depth+1)
			if err != nil {
				return o, err
			}
			return o.apply(append(deltas, e.content), most)
		}
		return Object{e.kind, e.content}.apply(deltas, most)
	}
	return Object{}, errors.New("deltas build on each other without an end")
}

// packHead is the size of what a pack begins with: "PACK", its version, and how many objects follow.
const packHead = 12

// entry is one of a pack.
type entry struct {
	kind    Kind
	back    int64 // how far before it is what it builds on
	base    ID    // or what that is called
	content []byte
}

// source is what entries are read from, without reading beyond them.
type source interface {
	io.Reader
	io.ByteReader
}

// inflater reads entries, one after the other. A new one is made of 40 KB.
type inflater struct{ z io.ReadCloser }

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

func (i *inflater) readEntry(in source, most int64) (e entry, err error) {
	b, err := in.ReadByte()
	e.kind = Kind(b >> 4 & 7)
	size := uint64(b & 15)
	for shift := 4; err == nil && b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); shift > 56 {
			err = errors.Join(err, errLarge)
		}
		size |= uint64(b&0x7f) << shift
	}
	if err != nil {
		return e, err
	}
	switch e.kind {
	case Commit, Tree, Blob, Tag:
	case offsetDelta:
		e.back, err = readBack(in)
	case nameDelta:
		_, err = io.ReadFull(in, e.base[:])
	default:
		err = fmt.Errorf("a pack with an object of %s", e.kind)
	}
	if err != nil {
		return e, err
	}
	if size > uint64(most) {
		return e, errLarge
	}
	if i.z == nil {
		i.z, err = zlib.NewReader(in)
	} else {
		err = i.z.(zlib.Resetter).Reset(in, nil)
	}
	if err != nil {
		return e, err
	}
	e.content, err = readAll(i.z, int64(size), most)
	return e, err
}

// readBack reads a distance: each further byte adds one.
func readBack(in source) (n int64, err error) {
	for i := 0; i < 8; i++ {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if i > 0 {
			n++
		}
		if n = n<<7 | int64(b&0x7f); b&0x80 == 0 {
			if n <= 0 {
				break
			}
			return n, nil
		}
	}
	return 0, errors.New("a delta that builds on nothing")
}

// apply applies deltas, the last one first.
func (o Object) apply(deltas [][]byte, most int64) (Object, error) {
	for i := len(deltas) - 1; i >= 0; i-- {
		var err error
		if o.Content, err = applyDelta(o.Content, deltas[i], most); err != nil {
			return o, err
		}
	}
	return o, nil
}

var errDelta = errors.New("a delta that does not fit what it builds on")

// applyDelta makes of a text what a delta says.
func applyDelta(base, delta []byte, most int64) ([]byte, error) {
	of, n := binary.Uvarint(delta)
	if n <= 0 || of != uint64(len(base)) {
		return nil, errDelta
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 {
		return nil, errDelta
	}
	if size > uint64(most) {
		return nil, errLarge
	}
	delta = delta[n:]
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		part := delta
		if op&0x80 != 0 {
			var ok bool
			if part, delta, ok = copied(base, op, delta); !ok {
				return nil, errDelta
			}
		} else {
			if op == 0 || int(op) > len(delta) {
				return nil, errDelta
			}
			part, delta = delta[:op], delta[op:]
		}
		if len(out)+len(part) > int(size) {
			return nil, errDelta
		}
		out = append(out, part...)
	}
	if len(out) != int(size) {
		return nil, errDelta
	}
	return out, nil
}

// copied is the part of base that an instruction names by the bytes at the beginning of delta: which of
// them are there is in its bits.
func copied(base []byte, op byte, delta []byte) (part, rest []byte, ok bool) {
	var from, size uint64
	for i := range 7 {
		if op>>i&1 == 0 {
			continue
		}
		if len(delta) == 0 {
			return nil, nil, false
		}
		if i < 4 {
			from |= uint64(delta[0]) << (8 * i)
		} else {
			size |= uint64(delta[0]) << (8 * (i - 4))
		}
		delta = delta[1:]
	}
	if size == 0 {
		size = 1 << 16
	}
	if from+size > uint64(len(base)) {
		return nil, nil, false
	}
	return base[from : from+size], delta, true
}
