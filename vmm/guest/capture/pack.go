//go:build linux

package capture

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// object is one that HEAD does not have. was is what HEAD has in place of a file, zero for nothing.
type object struct {
	name, was id
	kind      string
}

// maxMiddle is how much of a file may differ from its last version, in bytes, between the first and the
// last difference: git finds a smaller delta of one with more.
const maxMiddle = 16 << 10

// packs tells whether what the host asks for is HEAD, which it has, and what was made here on top of that.
func (c *capture) packs(tips, has []string) bool {
	head := c.head.id.String()
	return len(c.staged) == 0 && slices.Contains(has, head) && !slices.ContainsFunc(tips, func(tip string) bool {
		return tip != head && !slices.ContainsFunc(c.made, func(o object) bool { return o.kind == "commit" && o.name.String() == tip })
	})
}

// unique leaves out of what was made what is there twice, or in HEAD.
func (c *capture) unique() {
	seen := map[id]bool{}
	for _, o := range c.made {
		seen[o.name] = false
	}
	for _, e := range c.head.files {
		if _, ok := seen[e.id]; ok {
			seen[e.id] = true
		}
	}
	c.made = slices.DeleteFunc(c.made, func(o object) bool {
		again := seen[o.name]
		seen[o.name] = true
		return again
	})
}

// deltas are those of files whose last version git has; ok is false if git would do better.
func (c *capture) deltas() (all map[id][]byte, ok bool) {
	c.unique()
	all = map[id][]byte{}
	var ids strings.Builder
	for _, o := range c.made {
		if o.was != (id{}) {
			fmt.Fprintln(&ids, o.was)
		}
	}
	if ids.Len() == 0 {
		return all, true
	}
	cmd := c.command("cat-file", "--batch")
	cmd.Stdin = strings.NewReader(ids.String())
	pipe, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil, false
	}
	defer func() {
		pipe.Close()
		_ = cmd.Wait() // it may have more to say
	}()
	in := bufio.NewReaderSize(pipe, 1<<18)
	for _, o := range c.made {
		if o.was == (id{}) {
			continue
		}
		if all[o.name], err = c.delta(o, in); err != nil {
			return nil, false
		}
	}
	return all, true
}

// maxDelta bounds files that are compared with their last version, in bytes.
const maxDelta = 64 << 20

// delta is how a file is made of its last version, which git cat-file writes: what both begin with, what
// is new, and what both end with.
func (c *capture) delta(o object, in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var kind string
	var size int
	if _, err := fmt.Sscanf(line, o.was.String()+" %s %d\n", &kind, &size); err != nil || kind != "blob" || size > maxDelta {
		return nil, other("the last version of a file")
	}
	old := make([]byte, size+1) // a line ends it
	if _, err := io.ReadFull(in, old); err != nil {
		return nil, err
	}
	r, size, err := c.open(o)
	if err != nil || size > maxDelta {
		return nil, other("a file that grew")
	}
	defer r.Close()
	now := make([]byte, size)
	if _, err := io.ReadFull(r, now); err != nil {
		return nil, err
	}
	d, ok := deltaOf(old[:len(old)-1], now)
	if !ok {
		err = other("a file of which much is new")
	}
	return d, err
}

// deltaOf makes a delta; ok is false if git would make a smaller one.
func deltaOf(old, now []byte) (d []byte, ok bool) {
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

// open opens an object that was made here, and tells its size.
func (c *capture) open(o object) (io.ReadCloser, int, error) {
	name := o.name.String()
	f, err := os.Open(filepath.Join(c.temp, "objects", name[:2], name[2:]))
	if err != nil {
		return nil, 0, err
	}
	r, err := zlib.NewReader(bufio.NewReaderSize(f, 1<<18))
	if err != nil {
		return nil, 0, err
	}
	content := bufio.NewReaderSize(r, 1<<18)
	line, err := content.ReadString(0)
	if err != nil {
		return nil, 0, err
	}
	size, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(line, o.kind+" "), "\x00"))
	return struct {
		io.Reader
		io.Closer
	}{content, f}, size, err
}

// kinds are the numbers of kinds in a pack. That of a delta is followed by the name of what it builds on.
var kinds = map[string]byte{"commit": 1, "tree": 2, "blob": 3, "delta": 7}

// writePack writes what was made here as a pack (gitformat-pack(5)).
func (c *capture) writePack(to io.Writer, deltas map[id][]byte) error {
	sum, buffer := sha1.New(), bufio.NewWriterSize(to, 1<<16)
	out := io.MultiWriter(sum, buffer)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(c.made)))
	if _, err := out.Write(head); err != nil {
		return err
	}
	packed, _ := zlib.NewWriterLevel(out, zlib.BestSpeed) // the level is one
	for _, o := range c.made {
		if err := c.writeObject(out, packed, o, deltas[o.name]); err != nil {
			return err
		}
	}
	_, _ = buffer.Write(sum.Sum(nil)) // its error stays, and Flush returns it
	return buffer.Flush()
}

func (c *capture) writeObject(out io.Writer, packed *zlib.Writer, o object, delta []byte) error {
	r, size, base := io.ReadCloser(nil), len(delta), o.was[:]
	if delta != nil {
		o.kind, r = "delta", io.NopCloser(bytes.NewReader(delta))
	} else {
		var err error
		if r, size, err = c.open(o); err != nil {
			return err
		}
		base = nil
	}
	defer r.Close()
	b, n := kinds[o.kind]<<4|byte(size&15), size>>4
	var head []byte
	for ; n > 0; n >>= 7 {
		head, b = append(head, b|0x80), byte(n&0x7f)
	}
	packed.Reset(out)
	if _, err := out.Write(append(append(head, b), base...)); err != nil {
		return err
	}
	if _, err := io.CopyN(packed, r, int64(size)); err != nil {
		return err
	}
	return packed.Close()
}
