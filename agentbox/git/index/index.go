// Package index reads the index of a git work tree (gitformat-index(5), versions 2 to 4, SHA-1) and
// changes what it says of the times and sizes of files. It opens no file and runs no git. Of the
// extensions it knows only which may be skipped: an index that is split or sparse is an error.
package index

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
)

// Entry is one file of an index, as git saw it last. Git compares Size, which has 32 bits, and the times
// to tell whether a file has changed since.
type Entry struct {
	Path         string
	Mode         uint32 // of the type: 0o100644, 0o100755, 0o120000 or 0o160000
	ID           [sha1.Size]byte
	CTime, MTime Time
	Inode, Size  uint32
	// Special is set for a file that has a conflict, is to be added, or is not looked at: it takes more
	// than its Entry to say what is staged.
	Special bool

	at int // where it begins
}

// Time is a time as an index has it.
type Time struct{ Sec, Nsec uint32 }

// Index is a whole index.
type Index struct {
	Entries []Entry // sorted by Path
	text    []byte
}

const (
	headSize, statSize = 12, 40
	flagsAt            = statSize + sha1.Size
	extended           = 0x4000 // there are two more bytes of flags
	plainFlags         = 0x0fff // the length of the name; all others make a file special
)

// Parse reads an index. It keeps text.
func Parse(text []byte) (*Index, error) {
	end := len(text) - sha1.Size
	if end < headSize || string(text[:4]) != "DIRC" {
		return nil, errors.New("this is no index")
	}
	if sum := sha1.Sum(text[:end]); !bytes.Equal(sum[:], text[end:]) && !bytes.Equal(make([]byte, sha1.Size), text[end:]) {
		return nil, errors.New("the index is damaged")
	}
	version, count := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:])
	if version < 2 || version > 4 || int64(count) > int64(end/(flagsAt+2)) {
		return nil, fmt.Errorf("an index of version %d with %d files", version, count)
	}
	x, at, last := &Index{Entries: make([]Entry, 0, count), text: text}, headSize, ""
	for range count {
		e, next, err := parseEntry(text[:end], at, version, last)
		if err != nil {
			return nil, err
		}
		if e.Path < last || e.Path == last && !e.Special {
			return nil, fmt.Errorf("%q is in the wrong place", e.Path)
		}
		x.Entries, at, last = append(x.Entries, e), next, e.Path
	}
	return x, skipExtensions(text[at:end])
}

// parseEntry reads the entry at a place, after one with the path last.
func parseEntry(text []byte, at int, version uint32, last string) (e Entry, next int, err error) {
	if at+flagsAt+2 > len(text) {
		return e, 0, errors.New("the index ends too early")
	}
	b, number := text[at:], binary.BigEndian.Uint32
	e = Entry{
		at: at, CTime: Time{number(b), number(b[4:])}, MTime: Time{number(b[8:]), number(b[12:])},
		Inode: number(b[20:]), Mode: number(b[24:]), Size: number(b[36:]), ID: [sha1.Size]byte(b[statSize:]),
	}
	flags, name := binary.BigEndian.Uint16(b[flagsAt:]), b[flagsAt+2:]
	e.Special = flags&^plainFlags != 0
	if flags&extended != 0 {
		if version < 3 || len(name) < 2 {
			return e, 0, errors.New("flags that version 2 does not have")
		}
		name = name[2:]
	}
	if version == 4 {
		strip, n := varint(name)
		if n <= 0 || strip > uint64(len(last)) {
			return e, 0, errors.New("a path that begins with none")
		}
		name, last = name[n:], last[:len(last)-int(strip)]
	} else {
		last = ""
	}
	rest, after, ok := bytes.Cut(name, []byte{0})
	if e.Path = last + string(rest); !ok || e.Path == "" {
		return e, 0, errors.New("a path that does not end, or has no bytes")
	}
	next = len(text) - len(after)
	if version < 4 { // up to eight zero bytes, the first of which ends the path
		if next = at + (next-1-at)/8*8 + 8; next > len(text) {
			return e, 0, errors.New("the index ends too early")
		}
	}
	return e, next, nil
}

// varint reads a number as git writes offsets: each further byte adds one.
func varint(b []byte) (n uint64, size int) {
	for size < len(b) && size < 8 {
		c := b[size]
		if size++; size > 1 {
			n++
		}
		if n = n<<7 | uint64(c&0x7f); c&0x80 == 0 {
			return n, size
		}
	}
	return 0, 0
}

// skipExtensions refuses one without which the entries are not the whole index: its name begins with a
// small letter.
func skipExtensions(b []byte) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return errors.New("the index ends too early")
		}
		size := binary.BigEndian.Uint32(b[4:])
		if b[0] < 'A' || b[0] > 'Z' || uint64(size) > uint64(len(b)-8) {
			return fmt.Errorf("the index has a part %.4q", b)
		}
		b = b[8+size:]
	}
	return nil
}

// SetStat has the index say that a file was as in its entry when it had a size and a time.
func (ix *Index) SetStat(i int, size uint32, mtime Time) {
	b := ix.text[ix.Entries[i].at:]
	clear(b[:24])
	clear(b[28:36]) // its owner
	binary.BigEndian.PutUint32(b[8:], mtime.Sec)
	binary.BigEndian.PutUint32(b[12:], mtime.Nsec)
	binary.BigEndian.PutUint32(b[36:], size)
	ix.Entries[i].Size, ix.Entries[i].MTime, ix.Entries[i].CTime, ix.Entries[i].Inode = size, mtime, Time{}, 0
}

// Bytes is the index as a file.
func (ix *Index) Bytes() []byte {
	end := len(ix.text) - sha1.Size
	sum := sha1.Sum(ix.text[:end])
	copy(ix.text[end:], sum[:])
	return ix.text
}
