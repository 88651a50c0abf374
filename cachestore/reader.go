package cachestore

import (
	"context"
	"io"
	"sort"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Reader reads a blob at any offset, and hashes what it returns. Its methods are safe for
// concurrent use, except that Close comes after all others.
type Reader struct {
	fill *filler
	// starts has the offsets of a stream's chunks. It is nil for an image, whose blocks have fixed
	// offsets.
	starts  []int64
	release func()
	recent  chunkCache
}

// OpenBlob opens a blob for reading, and keeps it from being evicted until Close. Missing and
// damaged chunks come from src, which may be nil, one at a time as they are needed, and are stored.
//
// ctx bounds OpenBlob only. The error is NotFound when the manifest is neither in the store nor in
// src. Missing chunks are errors of ReadAt.
func (s *Store) OpenBlob(ctx context.Context, manifest agentbox.Digest, src Source) (*Reader, error) {
	release := s.guard.hold(manifest)
	m, err := s.EnsureManifest(ctx, manifest, src)
	if err == nil {
		err = s.touch(manifest)
	}
	if err != nil {
		release()
		return nil, err
	}
	r := &Reader{fill: s.newFiller(manifest, m, src), release: release}
	if !m.Blocks {
		r.starts = make([]int64, len(m.Chunks))
		at := int64(0)
		for i, c := range m.Chunks {
			r.starts[i] = at
			at += int64(c.Size)
		}
	}
	return r, nil
}

// Size returns the number of bytes of the blob.
func (r *Reader) Size() int64 { return r.fill.m.Size }

// ReadAt implements io.ReaderAt. With an error, the first n bytes are valid. It waits for the
// Source without a limit.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, agentbox.Errorf(agentbox.Invalid, "a read at %d", off)
	}
	n := 0
	for n < len(p) {
		if off+int64(n) >= r.Size() {
			return n, io.EOF
		}
		i, start := r.find(off + int64(n))
		b, err := r.chunk(i)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[off+int64(n)-start:])
	}
	return n, nil
}

func (r *Reader) find(off int64) (chunk int, start int64) {
	if r.fill.m.Blocks {
		i := int(off / blob.BlockSize)
		return i, r.start(i)
	}
	i := sort.Search(len(r.starts), func(i int) bool { return r.starts[i] > off }) - 1
	return i, r.start(i)
}

func (r *Reader) start(i int) int64 {
	if r.fill.m.Blocks {
		return int64(i) * blob.BlockSize
	}
	return r.starts[i]
}

// chunk returns chunk i, which must not be changed, and caches it.
func (r *Reader) chunk(i int) ([]byte, error) {
	if b := r.recent.get(i); b != nil {
		return b, nil
	}
	b, err := r.fill.chunk(context.Background(), i, nil)
	if err == nil {
		r.recent.put(i, b)
	}
	return b, err
}

// Close lets the blob be evicted again. The Reader cannot be used afterwards.
func (r *Reader) Close() error {
	defer r.release()
	return r.fill.close()
}

// recentBytes bounds the decoded chunks that a Reader caches: at least two of a stream's largest.
const recentBytes = 8 << 20

// chunkCache caches the chunks that were read last, and drops the oldest first. order and by have
// the same chunks; mu guards all fields.
type chunkCache struct {
	mu    sync.Mutex
	order []int
	by    map[int][]byte
	bytes int
}

func (c *chunkCache) get(i int) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[i]
}

func (c *chunkCache) put(i int, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[int][]byte{}
	}
	if c.by[i] != nil {
		return
	}
	c.by[i], c.order, c.bytes = b, append(c.order, i), c.bytes+len(b)
	for c.bytes > recentBytes && len(c.order) > 1 {
		oldest := c.order[0]
		c.bytes -= len(c.by[oldest])
		delete(c.by, oldest)
		c.order = c.order[1:]
	}
}
