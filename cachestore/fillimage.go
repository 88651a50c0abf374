package cachestore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// Filling is an image's own file while it is being completed. Who has its path may read a block when Need, Prefetch or Complete has
// returned for it, and no sooner: before, there is a hole. The manifest is held until Close; what outlives that pins it.
type Filling struct {
	s       *Store
	d       agentbox.Digest
	f       *filler
	file    *blockFile
	path    string
	release func()

	mu     sync.Mutex
	have   []bool
	now    map[int]chan struct{} // blocks that somebody is getting
	wanted int                   // demands under way
	calm   chan struct{}         // closed when there are none
	asked  map[int]bool
	trace  []uint32
}

// FillImage opens an image for reading while it comes from src, whose pieces are asked for as they are needed. Blocks that are here in
// other images' files are copied, not asked for.
func (s *Store) FillImage(ctx context.Context, manifest agentbox.Digest, src Source) (_ *Filling, err error) {
	l := &Filling{s: s, d: manifest, release: s.guard.hold(manifest), now: map[int]chan struct{}{}, asked: map[int]bool{}}
	l.calm = make(chan struct{})
	close(l.calm)
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
	if l.file, err = l.f.open(); err != nil {
		return nil, errors.Join(err, l.f.close())
	}
	l.path = s.path(imagesDir, imageName(l.file.id, manifest))
	l.have = make([]bool, len(m.Chunks))
	whole := s.checked.is(manifest)
	for i, c := range m.Chunks {
		l.have[i] = whole || c.Zero()
	}
	return l, s.touch(manifest)
}

// Path is the file.
func (l *Filling) Path() string { return l.path }

// Manifest is that of the image.
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

// Here counts the bytes that may be read, zeros among them.
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

// Need returns when a block is in the file, hashed. Meanwhile nothing new is got that nobody needs. An error of code NotFound or Corrupt
// says what src gave; others may go away.
func (l *Filling) Need(ctx context.Context, block int) error {
	if block < 0 || block >= len(l.have) {
		return agentbox.Errorf(agentbox.Invalid, "block %d of an image of %d", block, len(l.have))
	}
	l.demand(block)
	defer l.demandMet()
	return l.get(ctx, block)
}

func (l *Filling) demand(block int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked[block] && !l.f.m.Chunks[block].Zero() {
		l.asked[block] = true
		l.trace = append(l.trace, uint32(block))
	}
	if l.wanted++; l.wanted == 1 {
		l.calm = make(chan struct{})
	}
}

func (l *Filling) demandMet() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted--; l.wanted == 0 {
		close(l.calm)
	}
}

// becalmed returns when nobody waits for a block.
func (l *Filling) becalmed(ctx context.Context) error {
	for {
		l.mu.Lock()
		calm, wanted := l.calm, l.wanted
		l.mu.Unlock()
		if wanted == 0 {
			return nil
		}
		select {
		case <-calm:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get lets those who want the same block share one way of getting it. When it fails, each of them finds out for itself.
func (l *Filling) get(ctx context.Context, block int) error {
	for {
		l.mu.Lock()
		if l.have[block] {
			l.mu.Unlock()
			return nil
		}
		other := l.now[block]
		if other == nil {
			mine := make(chan struct{})
			l.now[block] = mine
			l.mu.Unlock()
			err := l.f.place(ctx, l.file, block)
			l.mu.Lock()
			l.have[block] = err == nil
			delete(l.now, block)
			l.mu.Unlock()
			close(mine)
			return err
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-other:
		}
	}
}

// bulkFetchers is how many blocks are got at once that nobody waits for: who comes to need one waits for those under way.
const bulkFetchers = 3

// Prefetch gets blocks in this order, demands before them. Numbers of none are passed over.
func (l *Filling) Prefetch(ctx context.Context, blocks []uint32) error {
	var list []int
	for _, b := range blocks {
		if int64(b) < int64(len(l.have)) {
			list = append(list, int(b))
		}
	}
	return errors.Join(l.bulk(ctx, list, nil), l.f.flush())
}

// Complete gets everything, demands before it. When it returns without an error the file is the whole image, on disk, and remembered as
// such: File gives it at once. progress, which may be nil, is told how many blocks are done.
func (l *Filling) Complete(ctx context.Context, progress func(done, total int)) error {
	var list []int
	for i, c := range l.f.m.Chunks {
		if !c.Zero() {
			list = append(list, i)
		}
	}
	if err := errors.Join(l.bulk(ctx, inOrder(l.f.m, list, l.Trace()), progress), l.f.flush()); err != nil {
		return err
	}
	err := l.s.changeMeta(l.d, func(m *index.Meta, known bool) bool {
		was := m.Whole
		m.Whole = true
		return known && !was
	})
	if err == nil {
		l.s.checked.remember(l.d)
	}
	return err
}

func (l *Filling) bulk(ctx context.Context, list []int, progress func(done, total int)) error {
	return newCrew(ctx, bulkFetchers-1).each(list, progress, func(ctx context.Context, i int) error {
		if err := l.becalmed(ctx); err != nil {
			return err
		}
		return l.get(ctx, i)
	})
}

// Close makes what came last, and lets go of the manifest. Nothing may be needed any more.
func (l *Filling) Close() error {
	defer l.release()
	return l.f.close()
}

// place makes block i lie in its place in the image's own file, hashed.
func (f *filler) place(ctx context.Context, file *blockFile, i int) error {
	c, off := f.m.Chunks[i], int64(i)*blob.BlockSize
	buf := make([]byte, c.Size)
	if n, err := file.ReadAt(buf, off); n == len(buf) && f.s.recognise(c.Digest, buf) == nil {
		return f.claim(file, i) // it came before this process
	} else if n < len(buf) && !lostBytes(err) && err == nil {
		return f.s.hostError(err)
	}
	b, err := f.chunk(ctx, i, buf)
	if err != nil {
		return err
	}
	if f.w.lies(c.Digest, file.id, off) {
		return nil
	}
	return f.write(ctx, file, b, off)
}

// claim says that block i lies in its place, unless it is said to lie somewhere.
func (f *filler) claim(file *blockFile, i int) error {
	c := f.m.Chunks[i]
	ok, err := f.w.has(c.Digest)
	if ok || err != nil {
		return err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	file.dirty = true
	f.w.pending[c.Digest] = index.Place{
		Image: true, File: file.id, Off: int64(i) * blob.BlockSize, Stored: uint32(c.Size), Size: uint32(c.Size), Seen: f.s.seen(),
	}
	return nil
}

// write puts a copy of a block that lies elsewhere too.
func (f *filler) write(ctx context.Context, file *blockFile, b []byte, off int64) error {
	n := int64(len(b))
	if err := f.s.reserve(ctx, f.w.kind, n); err != nil {
		return err
	}
	defer f.s.release(n)
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
