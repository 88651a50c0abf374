package cachestore

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// filler gets the missing chunks of one blob from a Source, and stores those of an image at their
// offsets in its own file. Each Reader and LazyImage has one, and each call of Store.File. Its
// methods are safe for concurrent use, except that close comes after all others. Every filler is
// closed.
type filler struct {
	s *Store
	// manifest is the digest of m.
	manifest agentbox.Digest
	m        blob.Manifest
	// src may be nil; then a missing chunk is an error.
	src Source
	// w stores new chunks; its claims protect those that were in the store.
	w *writer
	// onChunk is called concurrently with each chunk from src that was stored; nil for no call. Its
	// error fails the calls that want the chunk.
	onChunk func(ctx context.Context, i int, b []byte) error
	mu      sync.Mutex
	// image is the number of the image file, 0 until it is open. mu guards it.
	image uint64

	sessionMu sync.Mutex
	// session is nil until something is missing, because opening one may mean to find peers and
	// connect to them. sessionMu is held meanwhile, so that there is only one.
	session Session
}

// newFiller makes a filler of the blob with the manifest m, whose digest is d. Callers hold d.
func (s *Store) newFiller(d agentbox.Digest, m blob.Manifest, src Source) *filler {
	return &filler{s: s, manifest: d, m: m, src: src, w: s.newWriter(m.Kind)}
}

// get fetches chunks from the Source, which must not be nil, and returns when they are stored.
func (f *filler) get(ctx context.Context, p Priority, chunks []int) error {
	session, err := f.begin(ctx)
	if err != nil {
		return err
	}
	return session.Fetch(ctx, p, chunks)
}

// begin opens the session when the first chunk is missing.
func (f *filler) begin(ctx context.Context) (Session, error) {
	f.sessionMu.Lock()
	defer f.sessionMu.Unlock()
	if f.session == nil {
		session, err := OpenSession(ctx, f.src, f.manifest, f.m, f.arrived)
		if err != nil {
			return nil, err
		}
		f.session = session
	}
	return f.session, nil
}

// arrived is the filler's ChunkHandler: it hashes the bytes of a Source, stores them, and calls
// onChunk. The Source learns at once if its bytes were wrong, and nothing is hashed twice.
func (f *filler) arrived(ctx context.Context, i int, b []byte) error {
	c := f.m.Chunks[i]
	if _, err := sized(b, c); err != nil {
		return err
	}
	if err := blob.Check(c.Digest, b); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "a source gave wrong bytes: %w", err)
	}
	f.w.recordFingerprint(f.s.fingerprints.Sum(b), c.Digest)
	if err := f.put(ctx, i, b); err != nil || f.onChunk == nil {
		return err
	}
	return f.onChunk(ctx, i, b)
}

// chunk returns chunk i from the store, or else from the Source, and then stores it. The bytes may
// be shared.
//
// It may use buf, which may be nil, for the result. Readers that need a chunk at the same time
// share one request (Store.flights), even if they read different blobs.
func (f *filler) chunk(ctx context.Context, i int, buf []byte) ([]byte, error) {
	c := f.m.Chunks[i]
	if c.Zero() {
		return make([]byte, c.Size), nil
	}
	b, err := f.w.get(ctx, c.Digest, c.Size, buf)
	if err == nil {
		return sized(b, c)
	}
	if f.src == nil || !mayFetch(err) {
		return nil, err
	}
	b, err = f.s.flights.do(ctx, c.Digest, func() ([]byte, error) { return f.fetch(ctx, i) })
	if err != nil {
		return nil, err
	}
	return sized(b, c)
}

// sized returns an error unless a chunk has the length in the manifest. Its digest was right, so
// the manifest, which came from elsewhere, is wrong.
func sized(b []byte, c blob.Chunk) ([]byte, error) {
	if len(b) != c.Size {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, its manifest says %d", c.Digest.Short(), len(b), c.Size)
	}
	return b, nil
}

// fetch requests chunk i with the highest priority and returns its bytes.
func (f *filler) fetch(ctx context.Context, i int) ([]byte, error) {
	c := f.m.Chunks[i]
	// Another caller may have fetched it since we looked.
	if b, err := f.w.get(ctx, c.Digest, c.Size, nil); err == nil {
		return b, nil
	}
	if err := f.get(ctx, Demand, []int{i}); err != nil {
		return nil, err
	}
	return f.w.get(ctx, c.Digest, c.Size, nil)
}

// put stores a hashed chunk, unless it is in the store: in a pack, or at its offset in the image's
// file. If a copy of the block is elsewhere, there stays a hole until writeBlock fills it.
func (f *filler) put(ctx context.Context, i int, b []byte) error {
	d := f.m.Chunks[i].Digest
	if !f.m.Blocks {
		return f.w.putPack(ctx, d, b)
	}
	file, err := f.open()
	if err != nil {
		return err
	}
	if ok, err := f.w.has(d); ok || err != nil {
		return err
	}
	if err := f.w.putBlock(ctx, file, d, b, int64(i)*blob.BlockSize); err != nil {
		return err
	}
	f.w.mu.Lock()
	full := f.w.bytes >= flushBytes
	f.w.mu.Unlock()
	if full {
		return f.flush()
	}
	return nil
}

// open opens the image's file for writing, and creates it if there is none.
func (f *filler) open() (*blockFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.image == 0 {
		id, err := f.s.ensureImage(f.manifest, f.m)
		if err != nil {
			return nil, err
		}
		f.image = id
	}
	return f.w.openImage(f.image, f.manifest)
}

// ensureImage returns the number of a manifest's image file. If the index does not have one, for
// example because it was damaged, it finds an existing file or creates one. Callers hold the
// manifest.
//
// A new file is empty. imageMu is held until its manifest refers to it, because a file without a
// manifest is garbage to gc.
func (s *Store) ensureImage(d agentbox.Digest, m blob.Manifest) (uint64, error) {
	s.imageMu.Lock()
	defer s.imageMu.Unlock()
	meta, known, err := s.index.Meta(d)
	if err != nil {
		return 0, err
	}
	if known && s.handles.isImageOf(meta.File, d) {
		return meta.File, nil
	}
	id, ok := s.handles.imageFile(d)
	if !ok {
		if id, err = s.imageFiles.empty(d, m.Size); err != nil {
			return 0, err
		}
	}
	return id, s.addMeta(d, m, 0, commitment{file: id})
}

// flush flushes what was fetched, and charges it to the manifest. A Reader that runs for days
// writes as it goes (flushBytes) but charges here.
func (f *filler) flush() error {
	if err := f.w.flush(); err != nil {
		return err
	}
	return f.w.charge(func(written int64) error {
		return f.s.changeMeta(f.manifest, func(m *index.Meta, known bool) bool {
			m.Charged += written
			return known && written != 0
		})
	})
}

// close ends the session, so that nothing more arrives, and flushes what was fetched.
func (f *filler) close() error {
	var err error
	if f.session != nil {
		err = f.session.Close()
	}
	return errors.Join(err, f.flush(), f.w.close())
}

// Fetch gets all missing chunks of a blob from src, and flushes them. progress, which may be nil,
// receives the number of missing chunks that have arrived.
//
// It gets the manifest first if necessary. A stream's chunks go to packs, an image's to its own
// file. The error is NotFound when src lacks some chunks. Those that it has stay, and the next
// Fetch requests only what is still missing.
func (s *Store) Fetch(ctx context.Context, manifest agentbox.Digest, src Source, progress func(done, total int)) error {
	defer s.guard.hold(manifest)()
	f, soon, rest, err := s.missing(ctx, manifest, src)
	if err != nil {
		return err
	}
	if n := len(soon) + len(rest); progress != nil {
		f.onChunk = countProgress(n, progress)
	}
	return errors.Join(f.fetchBoth(ctx, soon, rest), f.close())
}

// missing is a filler of a blob, and what is missing of it, as fetchBoth takes it. Callers hold the manifest.
func (s *Store) missing(ctx context.Context, manifest agentbox.Digest, src Source) (f *filler, soon, rest []int, err error) {
	m, err := s.EnsureManifest(ctx, manifest, src)
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := s.Presence(m)
	if err != nil {
		return nil, nil, nil, err
	}
	soon, rest = byPriority(m, p.Missing, nil)
	return s.newFiller(manifest, m, src), soon, rest, nil
}

// inOrder is how many bytes FetchTo asks for at a time: a source gives them in the order that is best for
// all, so whoever reads what comes waits for most of them. Two such parts are under way, so that it never
// waits for us.
const inOrder = 8 << 20

// fetchInOrder gets chunks, roughly in this order.
func (f *filler) fetchInOrder(ctx context.Context, chunks []int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for len(chunks) > 0 && ctx.Err() == nil {
		n, bytes := 0, 0
		for ; n < len(chunks) && bytes < inOrder; n++ {
			bytes += f.m.Chunks[chunks[n]].Size
		}
		part := chunks[:n]
		chunks = chunks[n:]
		group.Go(func() error { return f.get(ctx, Bulk, part) })
	}
	return group.Wait()
}

// FetchTo is Fetch, and writes the blob to w meanwhile, each chunk as soon as all before it have come. An
// error of w ends it.
func (s *Store) FetchTo(ctx context.Context, manifest agentbox.Digest, src Source, w io.Writer) error {
	defer s.guard.hold(manifest)()
	f, soon, rest, err := s.missing(ctx, manifest, src)
	if err != nil {
		return err
	}
	chunks := slices.Concat(soon, rest) // a stream has no soon: its order is that of the blob
	due := newExpected(f.m, chunks)
	f.onChunk = func(_ context.Context, i int, _ []byte) error {
		due.came(f.m.Chunks[i].Digest)
		return nil
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.fetchInOrder(gctx, chunks) })
	group.Go(func() error {
		for i, c := range f.m.Chunks {
			if err := due.wait(gctx, c.Digest); err != nil {
				return err
			}
			b, err := f.chunk(gctx, i, nil)
			if err == nil {
				_, err = w.Write(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(group.Wait(), f.close())
}

// expected are chunks that are still to come.
type expected struct {
	mu  sync.Mutex
	all map[agentbox.Digest]chan struct{} // closed when it has
}

func newExpected(m blob.Manifest, chunks []int) *expected {
	e := &expected{all: make(map[agentbox.Digest]chan struct{}, len(chunks))}
	for _, i := range chunks {
		e.all[m.Chunks[i].Digest] = make(chan struct{})
	}
	return e
}

func (e *expected) came(d agentbox.Digest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.all[d]; ok { // it may come twice
		close(c)
		delete(e.all, d)
	}
}

// wait waits until a chunk is not expected any more.
func (e *expected) wait(ctx context.Context, d agentbox.Digest) error {
	e.mu.Lock()
	c, ok := e.all[d]
	e.mu.Unlock()
	if !ok {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// countProgress is for filler.onChunk. It does not call progress concurrently.
func countProgress(total int, progress func(done, total int)) func(context.Context, int, []byte) error {
	var mu sync.Mutex
	done := 0
	return func(context.Context, int, []byte) error {
		mu.Lock()
		defer mu.Unlock()
		done++
		progress(done, total)
		return nil
	}
}

// fetchBoth gets two lists of chunks at the same time: those of soon in this order, those of rest
// in any. The Session knows which come first. The first error ends both.
func (f *filler) fetchBoth(ctx context.Context, soon, rest []int) error {
	group, ctx := errgroup.WithContext(ctx)
	for p, list := range map[Priority][]int{Soon: soon, Bulk: rest} {
		if len(list) > 0 {
			group.Go(func() error { return f.get(ctx, p, list) })
		}
	}
	return group.Wait()
}

// byPriority splits the missing chunks into those that order or the manifest's trace name, in that
// order, and the others, in the order of the blob. Each digest occurs once, because its duplicates
// are in the store when it is.
func byPriority(m blob.Manifest, missing []int, order []uint32) (soon, rest []int) {
	want, taken := make(map[int]bool, len(missing)), make(map[agentbox.Digest]bool, len(missing))
	for _, i := range missing {
		want[i] = true
	}
	take := func(list *[]int, i int) {
		if !want[i] || taken[m.Chunks[i].Digest] {
			return
		}
		taken[m.Chunks[i].Digest] = true
		*list = append(*list, i)
	}
	for _, list := range [][]uint32{order, m.Trace} {
		for _, n := range list {
			take(&soon, int(n))
		}
	}
	for _, i := range missing {
		take(&rest, i)
	}
	return soon, rest
}
