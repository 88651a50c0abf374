package objects

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// MaxIndexed is how many objects a pack has at most that Index reads.
const MaxIndexed = 20_000

// More limits, in bytes: of an object, and of those that build on each other.
const maxIndexedSize, maxPath = 64 << 20, 256 << 20

// errIndexed is why a pack is left to git.
var errIndexed = errors.New("a pack that is not indexed here")

// Index writes a pack that it reads, and its index, into a directory of packs, as git index-pack does.
// Objects are hashed while the pack comes, as many at once as there are processors; most is how many bytes
// the pack has at most. structure is given each commit, tree and tag, in no order, one at a time. raw becomes
// the pack; it is for the caller to sync.
//
// After an error all that was read of r is in raw, a new file, and nothing else is there. Not read are deltas
// on objects that are named or are not in the pack, an object twice, and more or larger objects than usual.
func Index(ctx context.Context, r io.Reader, raw *os.File, most int64, structure func(Object) error) error {
	ix := &indexing{raw: raw, structure: structure, kids: map[int64][]int{}}
	whole := &summed{r: io.TeeReader(io.LimitReader(r, most+1), raw), sum: sha1.New()}
	err := ix.readAll(ctx, whole)
	if err == nil && whole.n > most {
		err = errLarge
	}
	if err != nil {
		return err
	}
	if err := ix.resolveAll(ctx); err != nil {
		return err
	}
	return ix.write(whole.last)
}

// indexing is one call of Index.
type indexing struct {
	raw     *os.File
	entries []indexed
	kids    map[int64][]int // deltas, by where in the pack is what they build on

	mu        sync.Mutex
	structure func(Object) error
}

// indexed is an object of a pack.
type indexed struct {
	at, end int64
	delta   bool
	sum     uint32
	id      ID
}

// readAll reads the pack once, and hashes what is no delta.
func (ix *indexing) readAll(ctx context.Context, whole *summed) error {
	in := bufio.NewReaderSize(whole, 1<<18)
	n, err := readPackHead(in)
	if err == nil && n > MaxIndexed {
		err = errIndexed
	}
	if err != nil {
		return err
	}
	ix.entries = make([]indexed, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	var z inflater
	for i := range ix.entries {
		at := whole.n - int64(in.Buffered())
		e, err := z.readEntry(in, maxIndexedSize)
		if err == nil && e.kind == nameDelta {
			err = errIndexed
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return errors.Join(err, g.Wait())
		}
		one := &ix.entries[i]
		*one = indexed{at: at, end: whole.n - int64(in.Buffered()), delta: e.kind == offsetDelta}
		if one.delta {
			ix.kids[at-e.back] = append(ix.kids[at-e.back], i)
			continue
		}
		g.Go(func() error { return ix.add(one, Object{e.kind, e.content}) })
	}
	return errors.Join(endOfPack(in, whole), g.Wait())
}

// add finds out the name of an object, and the sum of its bytes in the pack.
func (ix *indexing) add(one *indexed, o Object) (err error) {
	if one.id, err = o.ID(); err != nil {
		return err
	}
	b, err := ix.bytes(one)
	if err != nil {
		return err
	}
	one.sum = crc32.ChecksumIEEE(b)
	if o.Kind == Blob {
		return nil
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.structure(o)
}

// bytes are those of an object in the pack.
func (ix *indexing) bytes(one *indexed) ([]byte, error) {
	b := make([]byte, one.end-one.at)
	_, err := ix.raw.ReadAt(b, one.at)
	return b, err
}

// resolveAll makes the objects that are deltas, of each object that others build on at once.
func (ix *indexing) resolveAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	var resolved int
	for i := range ix.entries {
		one := &ix.entries[i]
		if one.delta || len(ix.kids[one.at]) == 0 {
			continue
		}
		g.Go(func() error {
			e, err := ix.entry(one)
			if err != nil {
				return err
			}
			n, err := ix.resolve(ctx, one, Object{e.kind, e.content}, len(e.content))
			ix.mu.Lock()
			defer ix.mu.Unlock()
			resolved += n
			return err
		})
	}
	err := g.Wait()
	for _, kids := range ix.kids {
		resolved -= len(kids)
	}
	if err == nil && resolved != 0 {
		err = errDelta
	}
	return err
}

// resolve makes what builds on an object, and counts that. path are the bytes of all that it builds on, which
// are held meanwhile.
func (ix *indexing) resolve(ctx context.Context, base *indexed, o Object, path int) (n int, err error) {
	for _, i := range ix.kids[base.at] {
		one := &ix.entries[i]
		e, err := ix.entry(one)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return n, err
		}
		made, err := o.apply([][]byte{e.content}, maxIndexedSize)
		if err == nil && path+len(made.Content) > maxPath {
			err = errIndexed
		}
		if err == nil {
			err = ix.add(one, made)
		}
		if err != nil {
			return n, err
		}
		more, err := ix.resolve(ctx, one, made, path+len(made.Content))
		if n += 1 + more; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (ix *indexing) entry(one *indexed) (entry, error) {
	b, err := ix.bytes(one)
	if err != nil {
		return entry{}, err
	}
	z := inflaters.Get().(*inflater)
	defer inflaters.Put(z)
	return z.readEntry(bytes.NewReader(b), maxIndexedSize)
}

// write writes the index, in git's version 2, and gives the pack its name, which is its sum.
func (ix *indexing) write(sum []byte) error {
	slices.SortFunc(ix.entries, func(a, b indexed) int { return bytes.Compare(a.id[:], b.id[:]) })
	name := filepath.Join(filepath.Dir(ix.raw.Name()), fmt.Sprintf("pack-%x", sum))
	text, err := ix.index(sum)
	if err != nil {
		return err
	}
	index := name + ".idx"
	err = writeSynced(index, text)
	if err == nil {
		err = ix.raw.Chmod(0o444)
	}
	if err == nil {
		err = os.Rename(ix.raw.Name(), name+".pack")
	}
	if err != nil {
		_ = os.Remove(index)
	}
	return err
}

func (ix *indexing) index(sum []byte) ([]byte, error) {
	out := []byte("\xfftOc\x00\x00\x00\x02")
	n := 0
	for first := range 256 {
		for ; n < len(ix.entries) && int(ix.entries[n].id[0]) <= first; n++ {
			if n > 0 && ix.entries[n].id == ix.entries[n-1].id {
				return nil, errIndexed
			}
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, e := range ix.entries {
		out = append(out, e.id[:]...)
	}
	for _, e := range ix.entries {
		out = binary.BigEndian.AppendUint32(out, e.sum)
	}
	var far []byte
	for _, e := range ix.entries {
		at := uint32(e.at)
		if e.at >= 1<<31 {
			at = 1<<31 | uint32(len(far)/8)
			far = binary.BigEndian.AppendUint64(far, uint64(e.at))
		}
		out = binary.BigEndian.AppendUint32(out, at)
	}
	out = append(append(out, far...), sum...)
	all := sha1.Sum(out)
	return append(out, all[:]...), nil
}

func writeSynced(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
