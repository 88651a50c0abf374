package cachestore

import (
	"context"
	"errors"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// filler gets the missing chunks of one blob from a Source. Those of an image go to their places in its own file.
type filler struct {
	s        *Store
	manifest agentbox.Digest
	m        blob.Manifest
	src      Source
	w        *writer
	mu       sync.Mutex
	image    uint64 // number of the image file, once it is open
}

func (s *Store) newFiller(d agentbox.Digest, m blob.Manifest, src Source) *filler {
	return &filler{s: s, manifest: d, m: m, src: src, w: s.newWriter(m.Kind)}
}

// chunk gives chunk i, from here or else from the Source, which it then is here from. The bytes may be shared.
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

func (f *filler) fetch(ctx context.Context, i int) ([]byte, error) {
	c := f.m.Chunks[i]
	// Another flight may have landed between our look and our start.
	if b, err := f.w.get(ctx, c.Digest, c.Size, nil); err == nil {
		return b, nil
	}
	b, err := fetch(ctx, f.src, c.Digest, c.Size)
	if err != nil {
		return nil, err
	}
	if _, err := sized(b, c); err != nil {
		return nil, err
	}
	f.w.remember(f.s.prints.Of(b), c.Digest)
	return b, f.put(ctx, i, b)
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

// ensureImage gives the number of a manifest's image file, which it makes when there is none. Callers hold the manifest.
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
	return errors.Join(f.flush(), f.w.close())
}

// Fetch gets what is missing of a blob from src, up to everything, and makes it last. order lists numbers of chunks to get first;
// progress, which may be nil, is told how many of the missing chunks are here.
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
	return errors.Join(f.all(ctx, inOrder(m, p.Missing, order), progress), f.close())
}

// fetchers is how many chunks are asked for at once: enough to hide a round trip.
const fetchers = 8

func (f *filler) all(ctx context.Context, list []int, progress func(done, total int)) error {
	return newCrew(ctx, fetchers).each(list, progress, func(ctx context.Context, i int) error {
		_, err := f.chunk(ctx, i, nil)
		return err
	})
}

// inOrder gives the missing chunks, those in first before the others, each once.
func inOrder(m blob.Manifest, missing []int, first []uint32) []int {
	want := make(map[int]bool, len(missing))
	for _, i := range missing {
		want[i] = true
	}
	out := make([]int, 0, len(missing))
	take := func(i int) {
		if want[i] {
			want[i] = false
			out = append(out, i)
		}
	}
	for _, list := range [][]uint32{first, m.Trace} {
		for _, n := range list {
			take(int(n))
		}
	}
	for _, i := range missing {
		take(i)
	}
	return out
}
