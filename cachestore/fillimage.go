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

// Filling is an image's own file while it is being completed. A process that has its path may read
// a block when Need, Prefetch or Complete has returned for it, and no sooner: before, there is a
// hole. The manifest is held until Close; what outlives that pins it. All methods may be called at
// once, Close after all others.
type Filling struct {
	s *Store
	d agentbox.Digest
	// f gets what is missing.
	f *filler
	// file is open for writing as long as the Filling is.
	file    *blockFile
	path    string
	release func()
	flights flights[int] // blocks that somebody is getting

	// mu guards what follows. It is not held while a block is got.
	mu sync.Mutex
	// have says which blocks may be read; it only ever grows.
	have []bool
	// asked are the blocks in trace, which lists those that Need was called for, in the order of
	// the first call: what the next machine with this image will read first.
	asked map[int]bool
	trace []uint32
	// listeners are the funcs of track, by their addresses: funcs cannot be compared.
	listeners map[*func()]bool
}

// FillImage opens an image for reading while it comes from src, whose pieces are asked for as they
// are needed. Blocks that are here in other images' files are copied, not asked for.
//
// src may be nil when all of it is here, scattered. Only the manifest is got before it returns;
// Invalid when that is of a stream. Nothing is readable at first but zeros, unless this process has
// found the whole file right before: what an earlier process got is hashed as it is asked for.
func (s *Store) FillImage(ctx context.Context, manifest agentbox.Digest, src Source) (_ *Filling, err error) {
	l := &Filling{s: s, d: manifest, release: s.guard.hold(manifest), asked: map[int]bool{}, listeners: map[*func()]bool{}}
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
	l.f.came = l.came
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

// Path is the file, in the store's directory. It has its full size from the start. Nobody but the
// store may write to it.
func (l *Filling) Path() string { return l.path }

// Manifest is that of the image. It is shared: nobody may change it.
func (l *Filling) Manifest() blob.Manifest { return l.f.m }

// Have is a bitmap of the blocks that may be read: bit i%8 of byte i/8, the lowest first.
func (l *Filling) Have() []byte {
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

// Here counts the bytes that may be read, zeros among them, for showing how far it has come.
func (l *Filling) Here() int64 {
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

// Trace lists the blocks that were needed, in the order in which they first were.
func (l *Filling) Trace() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.trace)
}

// Need returns when a block is in the file, hashed. Meanwhile nothing new is got that nobody needs.
// An error of code NotFound or Corrupt says what src gave; others may go away. A block is numbered
// by its place: byte offset / blob.BlockSize. Invalid beyond the end.
func (l *Filling) Need(ctx context.Context, block int) error {
	if block < 0 || block >= len(l.have) {
		return agentbox.Errorf(agentbox.Invalid, "block %d of an image of %d", block, len(l.have))
	}
	l.demand(block)
	return l.get(ctx, block, true)
}

// demand adds a block to the trace, once. Zeros cost nothing to have, so they are not worth a line.
func (l *Filling) demand(block int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked[block] && !l.f.m.Chunks[block].Zero() {
		l.asked[block] = true
		l.trace = append(l.trace, uint32(block))
	}
}

// track calls progress with how many blocks of a list may be read, until stop. The list has every
// block that is not zero, so each that arrives is in it.
func (l *Filling) track(list []int, progress func(done, total int)) (stop func()) {
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

// get lets callers that want the same block share one way of getting it. When it fails, each of
// them tries for itself: the first may have been cancelled. Without ask the source is not asked:
// what is not here is an error that mayFetch knows.
func (l *Filling) get(ctx context.Context, block int, ask bool) error {
	_, err := l.flights.do(ctx, block, func() ([]byte, error) {
		if l.readable(block) {
			return nil, nil
		}
		err := l.f.place(ctx, l.file, block, nil, ask)
		if err == nil {
			l.arrived(block)
		}
		return nil, err
	})
	return err
}

// readable reports whether a block may be read.
func (l *Filling) readable(block int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.have[block]
}

// came writes a chunk that came to its place in this file: filler.put leaves it out if another
// image has it.
func (l *Filling) came(ctx context.Context, block int, b []byte) error {
	if err := l.f.settle(ctx, l.file, block, b); err != nil {
		return err
	}
	l.arrived(block)
	return nil
}

// arrived makes a block readable, and notifies listeners, with mu held.
func (l *Filling) arrived(block int) {
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

// Prefetch gets blocks roughly in this order, demands before them, and returns when all of them may
// be read and are on disk. Numbers of no block are passed over.
func (l *Filling) Prefetch(ctx context.Context, blocks []uint32) error {
	var list []int
	for _, b := range blocks {
		if int64(b) < int64(len(l.have)) {
			list = append(list, int(b))
		}
	}
	return errors.Join(l.fetchAll(ctx, blocks, list), l.f.flush())
}

// Complete gets everything, demands before it. When it returns without an error the file is the
// whole image, on disk, and remembered as such: File gives it at once. progress, which may be nil,
// is told how many blocks are done, with a lock held: it must not call the Filling. NotFound when
// src lacks some; what it has is in the file, and asking again goes on from there.
func (l *Filling) Complete(ctx context.Context, progress func(done, total int)) error {
	list := l.f.m.Data()
	if progress != nil {
		defer l.track(list, progress)()
	}
	if err := errors.Join(l.fetchAll(ctx, l.Trace(), list), l.f.flush()); err != nil {
		return err
	}
	if err := l.s.setWhole(l.d); err != nil {
		return err
	}
	l.s.checked.Store(l.d, nil)
	return nil
}

// fetchAll makes blocks of a list readable, those that order or the manifest's trace name before
// the others. What is here, in another file or since an earlier process, is not asked for, so that
// a restarted daemon does not fetch an image twice.
func (l *Filling) fetchAll(ctx context.Context, order []uint32, list []int) error {
	missing, err := l.settleHere(ctx, list)
	if err != nil {
		return err
	}
	if len(missing) > 0 && l.f.src == nil {
		return absent("%d chunks of %s are not in the store", len(missing), l.d.Short())
	}
	soon, rest := inOrder(l.f.m, missing, order)
	if err := l.f.both(ctx, soon, rest); err != nil {
		return err
	}
	// Blocks with the bytes of one that came are here now.
	for _, i := range missing {
		if err := l.get(ctx, i, true); err != nil {
			return err
		}
	}
	return nil
}

// settleHere makes those blocks readable whose bytes are here, and gives the others, sorted.
func (l *Filling) settleHere(ctx context.Context, list []int) (missing []int, err error) {
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

// Close flushes what came, and releases the manifest. A call that is under way fails. The file
// stays, with its holes, and a later Filling goes on with it.
func (l *Filling) Close() error {
	defer l.release()
	return l.f.close()
}

// place makes block i lie in its place in the image's own file, hashed. What lies there already
// counts whether or not the index knows, because a crash loses claims that were not flushed, and
// what does not match is written over. buf may be used meanwhile; ask is get's.
func (f *filler) place(ctx context.Context, file *blockFile, i int, buf []byte, ask bool) error {
	c, off := f.m.Chunks[i], int64(i)*blob.BlockSize
	buf = slices.Grow(buf[:0], c.Size)[:c.Size]
	if !hole(file, off, int64(c.Size)) {
		if n, err := file.ReadAt(buf, off); n == len(buf) && f.s.recognise(c.Digest, buf) == nil {
			return f.claim(file, i) // it came before this process
		} else if err != nil && !lostBytes(err) {
			return f.s.hostError(err)
		}
	}
	// Where the index says that the block is in this very place, reading it finds the damage and
	// says so.
	b, err := f.read(ctx, i, buf, ask)
	if err != nil {
		return err
	}
	return f.settle(ctx, file, i, b)
}

// hole reports whether a file has nothing at a place: of an image that has just begun to come, all
// of it is a hole, and reading and hashing that would take as long as for an image that is there.
func hole(file disk.File, off, n int64) bool {
	start, _, err := file.NextData(off)
	return errors.Is(err, io.EOF) || err == nil && start >= off+n
}

// read returns chunk i, asking the Source for it or not.
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

// settle writes block i, whose bytes were hashed, at its place in the image's own file, unless it
// is known to lie there.
func (f *filler) settle(ctx context.Context, file *blockFile, i int, b []byte) error {
	off := int64(i) * blob.BlockSize
	if f.w.liesAt(f.m.Chunks[i].Digest, file.id, off) {
		return nil
	}
	return f.write(ctx, file, b, off)
}

// claim claims block i at its place with the next flush, unless there is a claim already. Its bytes
// were hashed, but perhaps never synced, so the file is marked as dirty.
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
		Image: true, File: file.id, Off: int64(i) * blob.BlockSize, Stored: uint32(c.Size), Size: uint32(c.Size), Seen: f.s.seen(),
	}
	return nil
}

// write puts a copy of a block that lies elsewhere too. No claim is made: the other one stands. It
// takes space all the same, which is charged to this manifest.
func (f *filler) write(ctx context.Context, file *blockFile, b []byte, off int64) error {
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
