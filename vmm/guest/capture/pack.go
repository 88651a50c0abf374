//go:build linux

package capture

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentbox/agentbox/git/objects"
)

// object is one that HEAD does not have. was is what HEAD has in place of a file, zero for nothing.
type object struct {
	name, was id
	kind      string
}

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

// deltas are those of files whose last version is there; ok is false if git would do better.
func (c *capture) deltas() (all map[id][]byte, ok bool) {
	c.unique()
	there, err := objects.Open(filepath.Join(c.git, "objects"))
	if err != nil {
		return nil, false
	}
	defer there.Close()
	made, failed := make([][]byte, len(c.made)), make([]error, len(c.made))
	each(len(c.made), func(i int) {
		if o := c.made[i]; o.was != (id{}) {
			made[i], failed[i] = c.delta(o, there)
		}
	})
	if errors.Join(failed...) != nil {
		return nil, false
	}
	all = map[id][]byte{}
	for i, d := range made {
		if d != nil {
			all[c.made[i].name] = d
		}
	}
	return all, true
}

// each calls do with the numbers below n, as many at once as there are processors.
func each(n int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// maxDelta bounds files that are compared with their last version, in bytes.
const maxDelta = 64 << 20

// delta is how a file is made of its last version: what both begin with, what is new, and what both end with.
func (c *capture) delta(o object, there *objects.Store) ([]byte, error) {
	old, err := there.Read(o.was, maxDelta)
	if err != nil || old.Kind != objects.Blob {
		return nil, other("the last version of a file")
	}
	r, size, err := c.open(o)
	if err != nil || size > maxDelta {
		return nil, other("a file that grew")
	}
	defer r.Close()
	now, held := c.held.all[o.name]
	if !held {
		now = make([]byte, size)
		if _, err := io.ReadFull(r, now); err != nil {
			return nil, err
		}
	}
	d, ok := objects.Delta(old.Content, now)
	if !ok {
		err = other("a file of which much is new")
	}
	return d, err
}

// open opens an object that was made here, and tells its size.
func (c *capture) open(o object) (io.ReadCloser, int, error) {
	if content, ok := c.held.all[o.name]; ok && o.kind == "blob" {
		return io.NopCloser(bytes.NewReader(content)), len(content), nil
	}
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

// kinds are the kinds of objects in a pack.
var kinds = map[string]objects.Kind{"commit": objects.Commit, "tree": objects.Tree, "blob": objects.Blob}

// writePack writes what was made here as a pack.
func (c *capture) writePack(to io.Writer, deltas map[id][]byte) error {
	out, err := objects.NewPackWriter(to, len(c.made))
	if err != nil {
		return err
	}
	for _, o := range c.made {
		if err := c.writeObject(out, o, deltas[o.name]); err != nil {
			return err
		}
	}
	return out.Close()
}

func (c *capture) writeObject(out *objects.PackWriter, o object, delta []byte) error {
	if delta != nil {
		return out.WriteDelta(o.was, delta)
	}
	r, size, err := c.open(o)
	if err != nil {
		return err
	}
	defer r.Close()
	return out.Write(kinds[o.kind], size, r)
}
