package git

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A reftable (gitformat-reftable in git's documentation, versions 1 and 2) is a file with refs and
// reflogs. Several of them, the newest last, make a stack, which is all refs of one work tree.
//
//	"REFT" version(1) block_size(3) min_update_index(8) max_update_index(8) [hash(4), version 2]
//	blocks: type(1) length(3) records restart_offset(3)* restart_count(2)
//	footer: the header again, five offsets, CRC-32; 68 bytes, or 72 in version 2
//
// A record's key continues the one before it. Blocks of refs (r), of objects (o) and of indexes (i)
// may be padded with zeros to block_size; those of logs (g) are compressed after their length. All
// blocks are read in order, so indexes and restarts are not needed.

// refRecord is what one table says of a ref: an object, another ref, or that it is gone.
type refRecord struct {
	object, symbolic string
}

// logRecord is what one table says of an entry of a reflog; line is "" if the entry is gone.
type logRecord struct {
	ref   string
	index uint64
	line  string
}

// reftable is the content of one file.
type reftable struct {
	refs map[string]refRecord
	logs []logRecord
}

var errReftable = errors.New("the reftable is damaged")

// parseReftable reads one table. It takes what it keeps in memory off left, in bytes: names share
// their beginnings and reflogs are compressed, so a small file can hold a lot.
func parseReftable(data []byte, left *int) (t reftable, err error) {
	if len(data) < 24 || string(data[:4]) != "REFT" {
		return t, errReftable
	}
	header, footer, digest := 24, 68, 20
	switch version := data[4]; {
	case version == 2 && len(data) >= 28:
		header, footer = 28, 72
		if string(data[24:28]) == "s256" {
			digest = 32
		}
	case version != 1:
		return t, fmt.Errorf("the reftable has the unknown version %d", version)
	}
	if len(data) < header+footer {
		return t, errReftable
	}
	t.refs = map[string]refRecord{}
	blockSize := uint24(data[5:])
	body := data[:len(data)-footer]
	for at := header; at+4 <= len(body); {
		start := at
		if at == header { // the first block begins with the file
			start = 0
		}
		kind, end := body[at], start+uint24(body[at+1:])
		if kind == 'g' {
			inflated, taken, err := inflate(body[at+4:], end-at-4, left)
			if err != nil {
				return t, err
			}
			if err := t.parseLogs(inflated, digest, left); err != nil {
				return t, err
			}
			at += 4 + taken
			continue
		}
		if end < at+4+2 || end > len(body) {
			return t, errReftable
		}
		if kind == 'r' {
			if err := t.parseRefs(body[at+4:end], digest, left); err != nil {
				return t, err
			}
		}
		if at = end; end < len(body) && body[end] == 0 && blockSize > 0 { // padding
			at = (end + blockSize - 1) / blockSize * blockSize
		}
	}
	return t, nil
}

func uint24(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// inflate returns a compressed block of size bytes, and how many bytes of data it took.
func inflate(data []byte, size int, left *int) (block []byte, taken int, err error) {
	if *left -= max(size, 0); size < 2 || *left < 0 {
		return nil, 0, errReftable
	}
	in := bytes.NewReader(data)
	z, err := zlib.NewReader(in)
	if err == nil {
		block = make([]byte, size)
		if _, err = io.ReadFull(z, block); err == nil {
			_, err = io.ReadFull(z, make([]byte, 1)) // reads the checksum, too
		}
	}
	if err != io.EOF {
		return nil, 0, errReftable
	}
	return block, len(data) - in.Len(), nil
}

// records calls each for the records of a block, without its restarts; the value is read from c.
func records(block []byte, left *int, each func(key string, kind byte, c *cursor)) error {
	if len(block) < 2 {
		return errReftable
	}
	restarts := 3*int(binary.BigEndian.Uint16(block[len(block)-2:])) + 2
	if restarts > len(block) {
		return errReftable
	}
	c := &cursor{rest: block[:len(block)-restarts]}
	var key []byte
	for len(c.rest) > 0 && !c.failed {
		prefix, suffix := c.varint(), c.varint()
		if prefix > uint64(len(key)) {
			return errReftable
		}
		key = append(key[:prefix:prefix], c.take(suffix>>3)...)
		if *left -= len(key); *left < 0 {
			return errReftable
		}
		each(string(key), byte(suffix&7), c)
	}
	if c.failed {
		return errReftable
	}
	return nil
}

func (rt *reftable) parseRefs(block []byte, digest int, left *int) error {
	return records(block, left, func(name string, kind byte, c *cursor) {
		c.varint() // of the update index
		var r refRecord
		switch kind {
		case 0:
		case 1:
			r.object = c.hex(digest)
		case 2:
			r.object = c.hex(digest)
			c.take(uint64(digest)) // what the tag names
		case 3:
			r.symbolic = c.text()
		default:
			c.failed = true
		}
		rt.refs[name] = r
	})
}

func (rt *reftable) parseLogs(block []byte, digest int, left *int) error {
	return records(block, left, func(key string, kind byte, c *cursor) {
		name, index, ok := strings.Cut(key, "\x00")
		if !ok || len(index) != 8 || kind > 1 {
			c.failed = true
			return
		}
		r := logRecord{ref: name, index: ^binary.BigEndian.Uint64([]byte(index))}
		if kind == 1 {
			r.line = c.logLine(digest)
		}
		rt.logs = append(rt.logs, r)
	})
}

// logLine reads an entry and returns it as a line of a reflog file.
func (c *cursor) logLine(digest int) string {
	from, to, name, email, seconds := c.hex(digest), c.hex(digest), c.text(), c.text(), c.varint()
	zone := int16(c.number(2)) // as it is written: -0330 is -330
	message := strings.ReplaceAll(strings.TrimSuffix(c.text(), "\n"), "\n", " ")
	if strings.Trim(from+to, "0") == "" { // the mark of an empty reflog
		return ""
	}
	return fmt.Sprintf("%s %s %s <%s> %d %+05d\t%s\n", from, to, oneLine(name), oneLine(email), seconds, zone, message)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// cursor reads numbers and texts. Reading beyond the end sets failed.
type cursor struct {
	rest   []byte
	failed bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.failed, c.rest = true, nil
		return nil
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out
}

func (c *cursor) number(size uint64) (n uint64) {
	for _, b := range c.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// varint reads a number as packs encode offsets.
func (c *cursor) varint() uint64 {
	b := c.number(1)
	n := b & 0x7f
	for b&0x80 != 0 && !c.failed {
		b = c.number(1)
		n = (n+1)<<7 | b&0x7f
	}
	return n
}

func (c *cursor) text() string { return string(c.take(c.varint())) }

func (c *cursor) hex(size int) string { return hex.EncodeToString(c.take(uint64(size))) }

// merge returns the refs and the lines of reflogs of a stack, whose later tables count.
func merge(stack []reftable) Refs {
	out := Refs{Objects: map[string]string{}, Symbolic: map[string]string{}, Logs: map[string][]string{}}
	refs := map[string]refRecord{}
	type entry struct {
		ref   string
		index uint64
	}
	lines := map[entry]string{}
	for _, t := range stack {
		for name, r := range t.refs {
			refs[name] = r
		}
		for _, l := range t.logs {
			lines[entry{l.ref, l.index}] = l.line
		}
	}
	for name, r := range refs {
		switch {
		case r.object != "":
			out.Objects[name] = r.object
		case r.symbolic != "":
			out.Symbolic[name] = r.symbolic
		}
	}
	var order []entry
	for e, line := range lines {
		if line != "" {
			order = append(order, e)
		}
	}
	slices.SortFunc(order, func(a, b entry) int { return cmp.Compare(a.index, b.index) })
	for _, e := range order {
		out.Logs[e.ref] = append(out.Logs[e.ref], lines[e])
	}
	return out
}
