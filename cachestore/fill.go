package cachestore

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// filler gets the missing chunks of one blob from a Source. Those of an image go to their places in
// its own file.
type filler struct {
	s        *Store
	manifest agentbox.Digest
	m        blob.Manifest
	src      Source
	w        *writer
	came     func(ctx context.Context, i int, b []byte) error // is told of each chunk that was stored; nil: nobody is
	mu       sync.Mutex
	image    uint64 // number of the image file, once it is open

	sessionMu sync.Mutex
	session   Session // nil until something is missing
}

func (s *Store) newFiller(d agentbox.Digest, m blob.Manifest, src Source) *filler {
	return &filler{s: s, manifest: d, m: m, src: src, w: s.newWriter(m.Kind)}
}

// get has chunks come from the Source.
func (f *filler) get(ctx context.Context, p Priority, chunks []int) error {
	session, err := f.begin(ctx)
	if err != nil {
		return err
	}
	return session.Fetch(ctx, p, chunks)
}

// begin opens the session when something is missing for the first time.
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

// arrived believes nothing that a Source says.
func (f *filler) arrived(ctx context.Context, i int, b []byte) error {
	c := f.m.Chunks[i]
	if _, err := sized(b, c); err != nil {
		return err
	}
	if err := blob.Check(c.Digest, b); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "a source gave wrong bytes: %w", err)
	}
	f.w.remember(f.s.prints.Of(b), c.Digest)
	if err := f.put(ctx, i, b); err != nil || f.came == nil {
		return err
	}
	return f.came(ctx, i, b)
}

// chunk gives chunk i, from here or else from the Source, which it then is here from. The bytes may
// be shared.
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

// sized refuses a chunk that is shorter than the manifest says: the manifest lies.
func sized(b []byte, c blob.Chunk) ([]byte, error) {
	if len(b) != c.Size {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s has %d bytes, its manifest says %d", c.Digest.Short(), len(b), c.Size)
	}
	return b, nil
}

// fetch gets chunk i because somebody waits for it.
func (f *filler) fetch(ctx context.Context, i int) ([]byte, error) {
	c := f.m.Chunks[i]
	// Another flight may have landed between our look and our start.
	if b, err := f.w.get(ctx, c.Digest, c.Size, nil); err == nil {
		return b, nil
	}
	if err := f.get(ctx, Demand, []int{i}); err != nil {
		return nil, err
	}
	return f.w.get(ctx, c.Digest, c.Size, nil)
}

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

// open opens the image's file, and makes it when there is none.
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

// ensureImage gives the number of a manifest's image file, which it makes when there is none.
// Callers hold the manifest.
func (s *Store) ensureImage(d agentbox.Digest, m blob.Manifest) (uint64, error) {
	s.imageMu.Lock()
	defer s.imageMu.Unlock()
	meta, known, err := s.index.Meta(d)
	if err != nil {
		return 0, err
	}
	if owner, ok := s.handles.imageOf(meta.File); known && ok && owner == d {
		return meta.File, nil
	}
	f, id, err := s.createImage(m.Size)
	if err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, s.hostError(err)
	}
	if err := s.nameImage(id, d); err != nil {
		return 0, err
	}
	return id, s.addMeta(d, m, 0, commitment{file: id})
}

// flush makes what was got last, and charges it to the manifest.
func (f *filler) flush() error {
	if err := f.w.flush(); err != nil {
		return err
	}
	f.w.mu.Lock()
	charged := f.w.charged
	f.w.charged = 0
	f.w.mu.Unlock()
	if charged == 0 {
		return nil
	}
	return f.s.changeMeta(f.manifest, func(m *index.Meta, known bool) bool {
		m.Charged += charged
		return known
	})
}

func (f *filler) close() error {
	var err error
	if f.session != nil {
		err = f.session.Close()
	}
	return errors.Join(err, f.flush(), f.w.close())
}

// Fetch gets what is missing of a blob from src, up to everything, and makes it last. order lists
// numbers of chunks to get first; progress, which may be nil, is told how many of the missing
// chunks are here.
func (s *Store) Fetch(ctx context.Context, manifest agentbox.Digest, src Source, order []uint32, progress func(done, total int)) error {
	defer s.guard.hold(manifest)()
	m, err := s.EnsureManifest(ctx, manifest, src)
	if err != nil {
		return err
	}
	p, err := s.Presence(m)
	if err != nil {
		return err
	}
	f := s.newFiller(manifest, m, src)
	soon, rest := inOrder(m, p.Missing, order)
	if n := len(soon) + len(rest); progress != nil {
		f.came = counting(n, progress)
	}
	return errors.Join(f.both(ctx, soon, rest), f.close())
}

// counting gives what to tell of chunks that come, which passes their number on.
func counting(total int, progress func(done, total int)) func(context.Context, int, []byte) error {
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

// both gets chunks that are needed in this order, and others in any. A Session knows what comes
// first.
func (f *filler) both(ctx context.Context, soon, rest []int) error {
	group, ctx := errgroup.WithContext(ctx)
	for p, list := range map[Priority][]int{Soon: soon, Bulk: rest} {
		if len(list) > 0 {
			group.Go(func() error { return f.get(ctx, p, list) })
		}
	}
	return group.Wait()
}

// inOrder gives the missing chunks, each digest once: those that order or the manifest's trace
// name, and the others.
func inOrder(m blob.Manifest, missing []int, order []uint32) (soon, rest []int) {
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
