package cachestore

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// LazyImage is an image's own file while it is being completed. A process that has its path may
// read a block once Need, Prefetch or Complete has returned for it; before that, the block may be a
// hole. The manifest is held until Close; a process that uses the file for longer must pin it. All
// methods are safe for concurrent use, except that Close comes after all others.
type LazyImage struct {
	s *Store
	d agentbox.Digest
	// f gets missing chunks.
	f *filler
	// file is open for writing until close.
	file    *blockFile
	path    string
	release func()
	flights flights[int] // blocks that somebody is getting

	// mu guards the fields below it. It is not held while a block is fetched.
	mu sync.Mutex
	// have says which blocks may be read. Entries are only ever set.
	have []bool
	// asked are the blocks in trace. trace lists the blocks for which Need was called, in the order
	// of the first call. The next machine with this image will read them first, too.
	asked map[int]bool
	trace []uint32
	// listeners are the funcs of track, by their addresses, because funcs cannot be compared.
	listeners map[*func()]bool
}

// OpenLazyImage opens an image for reading while its pieces are fetched from src as needed. Blocks
// that are in the store in other images' files are copied instead.
//
// src may be nil when the whole image is in the store, scattered over other files. OpenLazyImage
// fetches only the manifest. The error is Invalid when that is of a stream. At first only blocks of
// zeros may be read, unless this process has found the whole file correct before. Blocks from
// earlier processes are hashed when they are needed.
func (s *Store) OpenLazyImage(ctx context.Context, manifest agentbox.Digest, src Source) (_ *LazyImage, err error) {
	l := &LazyImage{s: s, d: manifest, release: s.guard.hold(manifest), asked: map[int]bool{}, listeners: map[*func()]bool{}}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	m, err := s.EnsureManifest(ctx, manifest, src)
	if err != nil {
		return nil, err
	}
	if !m.Blocks {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is a stream: it has no file of its own", manifest.Short())
	}
	l.f = s.newFiller(manifest, m, src)
	l.f.onChunk = l.onChunk
	if l.file, err = l.f.open(); err != nil {
		return nil, errors.Join(err, l.f.close())
	}
	l.path = s.path(imagesDir, imageName(l.file.id, manifest))
	l.have = make([]bool, len(m.Chunks))
	_, whole := s.checked.Load(manifest)
	for i, c := range m.Chunks {
		l.have[i] = whole || c.Zero()
	}
	if err := s.touch(manifest); err != nil {
		return nil, errors.Join(err, l.f.close())
	}
	return l, nil
}

// Path returns the path of the file, in the store's directory. It has its full size from the start.
// Only the store may write to it.
func (l *LazyImage) Path() string { return l.path }

// Manifest returns the image's manifest. It is shared and must not be changed.
func (l *LazyImage) Manifest() blob.Manifest { return l.f.m }

// Bitmap returns a bitmap of the blocks that may be read: bit i%8 of byte i/8, the lowest first.
func (l *LazyImage) Bitmap() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	bits := make([]byte, (len(l.have)+7)/8)
	for i, ok := range l.have {
		if ok {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits
}

// PresentBytes returns the number of bytes that may be read, including zeros, to show progress.
func (l *LazyImage) PresentBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for i, ok := range l.have {
		if ok {
			n += int64(l.f.m.Chunks[i].Size)
		}
	}
	return n
}

// Trace lists the blocks that were needed, in the order of their first use.
func (l *LazyImage) Trace() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.trace)
}

// Need returns when a block is in the file, hashed. Meanwhile no request of a lower priority is
// started. Blocks are numbered by their place: byte offset / blob.BlockSize. The error is Invalid
// beyond the end, and NotFound or Corrupt if src does not have the block; after other errors a
// retry may succeed.
func (l *LazyImage) Need(ctx context.Context, block int) error {
	if block < 0 || block >= len(l.have) {
		return agentbox.Errorf(agentbox.Invalid, "block %d of an image of %d", block, len(l.have))
	}
	l.demand(block)
	return l.get(ctx, block, true)
}

// demand adds a block to the trace, once. It leaves out zeros, which cost nothing to have.
func (l *LazyImage) demand(block int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked[block] && !l.f.m.Chunks[block].Zero() {
		l.asked[block] = true
		l.trace = append(l.trace, uint32(block))
	}
}

// track calls progress with the number of blocks of a list that may be read, until stop is called.
// The list has every block that is not zero, and so each one that arrives.
func (l *LazyImage) track(list []int, progress func(done, total int)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := 0
	for _, i := range list {
		if l.have[i] {
			done++
		}
	}
	arrived := func() {
		done++
		progress(done, len(list))
	}
	l.listeners[&arrived] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, &arrived)
	}
}

// get makes a block readable. Concurrent callers share one attempt; if it fails, each tries on its
// own, because the first may have been cancelled. Without ask, it does not use the Source, and
// mayFetch is true of the error for a missing block.
func (l *LazyImage) get(ctx context.Context, block int, ask bool) error {
	_, err := l.flights.do(ctx, block, func() ([]byte, error) {
		if l.readable(block) {
			return nil, nil
		}
		err := l.f.ensureBlock(ctx, l.file, block, nil, ask)
		if err == nil {
			l.arrived(block)
		}
		return nil, err
	})
	return err
}

// readable reports whether a block may be read.
func (l *LazyImage) readable(block int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.have[block]
}

// onChunk writes a fetched chunk to its place in this file, because filler.put skips a chunk that
// another image has.
func (l *LazyImage) onChunk(ctx context.Context, block int, b []byte) error {
	if err := l.f.writeBlock(ctx, l.file, block, b); err != nil {
		return err
	}
	l.arrived(block)
	return nil
}

// arrived makes a block readable, and calls the listeners with mu held.
func (l *LazyImage) arrived(block int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have[block] {
		return
	}
	l.have[block] = true
	for notify := range l.listeners {
		(*notify)()
	}
}

// Prefetch gets blocks roughly in this order, with a lower priority than Need, and returns when all
// of them are on disk and may be read. It ignores numbers beyond the end.
func (l *LazyImage) Prefetch(ctx context.Context, blocks []uint32) error {
	var list []int
	for _, b := range blocks {
		if int64(b) < int64(len(l.have)) {
			list = append(list, int(b))
		}
	}
	return errors.Join(l.fetchAll(ctx, blocks, list), l.f.flush())
}

// Complete gets all blocks, with a lower priority than Need. When it returns nil, the file is the
// whole image, on disk, and File returns it at once. progress, which may be nil, receives the
// number of readable blocks. It is called with a lock held, so it must not call the LazyImage. The
// error is NotFound when src lacks some blocks; the others stay, and a retry continues from there.
func (l *LazyImage) Complete(ctx context.Context, progress func(done, total int)) error {
	list := l.f.m.Data()
	if progress != nil {
		defer l.track(list, progress)()
	}
	if err := errors.Join(l.fetchAll(ctx, l.Trace(), list), l.f.flush()); err != nil {
		return err
	}
	if err := l.s.markComplete(l.d); err != nil {
		return err
	}
	l.s.checked.Store(l.d, nil)
	return nil
}

// fetchAll makes the blocks of a list readable: first those that order or the manifest's trace
// name. It does not request what is in the store, in another file or from an earlier process, so
// that a restarted daemon does not fetch an image twice.
func (l *LazyImage) fetchAll(ctx context.Context, order []uint32, list []int) error {
	missing, err := l.ensureLocal(ctx, list)
	if err != nil {
		return err
	}
	if len(missing) > 0 && l.f.src == nil {
		return notFound("%d chunks of %s are not in the store", len(missing), l.d.Short())
	}
	soon, rest := byPriority(l.f.m, missing, order)
	if err := l.f.fetchBoth(ctx, soon, rest); err != nil {
		return err
	}
	// Copies of the blocks that were fetched are in the store now.
	for _, i := range missing {
		if err := l.get(ctx, i, true); err != nil {
			return err
		}
	}
	return nil
}

// ensureLocal makes blocks readable whose bytes are in the store, and returns the others, sorted.
func (l *LazyImage) ensureLocal(ctx context.Context, list []int) (missing []int, err error) {
	workers := newWorkers(ctx)
	err = workers.each(list, func(ctx context.Context, i int) error {
		err := l.get(ctx, i, false)
		if err != nil && mayFetch(err) {
			workers.locked(func() { missing = append(missing, i) })
			return nil
		}
		return err
	})
	slices.Sort(missing)
	return missing, err
}

// Close flushes what was fetched, and releases the manifest. Calls under way fail. The file stays
// with its holes, and a later LazyImage continues with it.
func (l *LazyImage) Close() error {
	defer l.release()
	return l.f.close()
}

// ensureBlock makes the image's own file hold block i at its offset, hashed. It accepts bytes that
// are already there even if the index does not know them, because a crash loses claims that were
// not flushed. It overwrites bytes that do not match. It may use buf; ask is that of get.
func (f *filler) ensureBlock(ctx context.Context, file *blockFile, i int, buf []byte, ask bool) error {
	c, off := f.m.Chunks[i], int64(i)*blob.BlockSize
	buf = slices.Grow(buf[:0], c.Size)[:c.Size]
	if !hole(file, off, int64(c.Size)) {
		if n, err := file.ReadAt(buf, off); n == len(buf) && f.s.checkFast(c.Digest, buf) == nil {
			return f.claim(file, i) // from an earlier process
		} else if err != nil && !isDataLost(err) {
			return f.s.hostError(err)
		}
	}
	// If the index says that the block is at this very offset, reading it records the damage.
	b, err := f.read(ctx, i, buf, ask)
	if err != nil {
		return err
	}
	return f.writeBlock(ctx, file, i, b)
}

// hole reports whether a range of a file has no data. An image that was just started is one hole,
// and reading and hashing it would take as long as for a complete one.
func hole(file disk.File, off, n int64) bool {
	start, _, err := file.NextData(off)
	return errors.Is(err, io.EOF) || err == nil && start >= off+n
}

// read returns chunk i, from the Source only if ask is set.
func (f *filler) read(ctx context.Context, i int, buf []byte, ask bool) ([]byte, error) {
	if ask {
		return f.chunk(ctx, i, buf)
	}
	c := f.m.Chunks[i]
	b, err := f.w.get(ctx, c.Digest, c.Size, buf)
	if err != nil {
		return nil, err
	}
	return sized(b, c)
}

// writeBlock writes block i, whose bytes were hashed, at its offset in the image's own file, unless
// it is known to be there.
func (f *filler) writeBlock(ctx context.Context, file *blockFile, i int, b []byte) error {
	off := int64(i) * blob.BlockSize
	if f.w.isAt(f.m.Chunks[i].Digest, file.id, off) {
		return nil
	}
	return f.copyBlock(ctx, file, b, off)
}

// claim claims block i at its offset with the next flush, unless it is claimed already. The bytes
// were hashed, but perhaps never synced, so it marks the file as dirty.
func (f *filler) claim(file *blockFile, i int) error {
	c := f.m.Chunks[i]
	ok, err := f.w.has(c.Digest)
	if ok || err != nil {
		return err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	file.dirty = true
	f.w.pending[c.Digest] = index.Location{
		Image: true, File: file.id, Off: int64(i) * blob.BlockSize, Stored: uint32(c.Size), Size: uint32(c.Size), Seen: f.s.claimTime(),
	}
	return nil
}

// copyBlock writes a copy of a block that is also elsewhere. It adds no claim, because the other
// one stays valid, but charges the space to this manifest.
func (f *filler) copyBlock(ctx context.Context, file *blockFile, b []byte, off int64) error {
	n := int64(len(b))
	if err := f.s.space.reserve(ctx, f.w.kind, n); err != nil {
		return err
	}
	defer f.s.space.release(n)
	if _, err := file.WriteAt(b, off); err != nil {
		return f.s.hostError(err)
	}
	f.s.space.add(f.w.kind, n)
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	file.dirty = true
	f.w.charged += n
	return nil
}
