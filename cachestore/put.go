package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// PutResult is the result of a put. Storing a blob again results in the same manifest and writes
// next to nothing.
type PutResult struct {
	Manifest agentbox.Digest `json:"manifest"`
	Size     int64           `json:"size"`    // bytes of the blob
	Written  int64           `json:"written"` // bytes that were new, as they are on disk
}

// PutStream cuts r at places that depend on its content, and stores it. The result is on disk.
// Until it is named or pinned, it stays for the grace period.
//
// info.Kind must be one of blob.Kinds (otherwise Invalid); its quota is charged. The error is
// NoSpace when the quota or the disk is still full after a gc. An error of r is wrapped. After an
// error, gc removes what was written; callers need not undo anything. r is read by one goroutine at
// a time.
func (s *Store) PutStream(ctx context.Context, r io.Reader, info blob.Info) (PutResult, error) {
	w := s.newWriter(info.Kind)
	m := blob.Manifest{Info: info}
	err := s.splitInto(ctx, w, r, &m)
	var out PutResult
	if err == nil {
		out, err = s.commit(ctx, w, m, commitment{})
	}
	return out, errors.Join(err, w.close())
}

// commitment is what a manifest brings with it: nothing for a stream.
type commitment struct {
	// file is the number of its image file; whole reports whether that holds every chunk by itself.
	file  uint64
	whole bool
}

// commit stores the manifest of what w wrote, and then its metadata. It flushes in between, so that
// a manifest with metadata has all its chunks claimed, on disk. The caller closes w afterwards:
// until then, gc cannot remove chunks that only this blob needs.
func (s *Store) commit(ctx context.Context, w *writer, m blob.Manifest, c commitment) (PutResult, error) {
	if err := m.Check(); err != nil {
		return PutResult{}, agentbox.Classify(agentbox.Invalid, "%w", err)
	}
	encoded := m.Encode()
	if len(encoded) > blob.MaxManifest {
		return PutResult{}, agentbox.Errorf(agentbox.Invalid, "a blob of %d bytes in %d chunks is too large for one manifest", m.Size, len(m.Chunks))
	}
	d := blob.Sum(encoded)
	defer s.guard.hold(d)()
	if err := w.putRecord(ctx, pack.Manifest, d, encoded); err != nil {
		return PutResult{}, err
	}
	if err := w.flush(); err != nil {
		return PutResult{}, err
	}
	out := PutResult{Manifest: d, Size: m.Size}
	err := w.charge(func(written int64) error {
		out.Written = written
		return s.addMeta(d, m, written, c)
	})
	return out, err
}

// addMeta adds the metadata of a manifest whose bytes are in the store. If there is an entry, it
// adds charged to it, or an image file. Meanwhile it protects the chunks, because a gc that does
// not see the entry would take them for garbage.
func (s *Store) addMeta(d agentbox.Digest, m blob.Manifest, charged int64, c commitment) error {
	now := s.cfg.Now().UTC()
	defer s.guard.protect(m)()
	return s.changeMeta(d, func(meta *index.Meta, known bool) bool {
		if !known {
			*meta = index.Meta{
				Kind: m.Kind, MediaType: m.MediaType, Size: m.Size, Chunks: len(m.Chunks), Blocks: m.Blocks, Created: now, Used: now,
			}
		}
		meta.Charged += charged
		// An image file that it already has stays, because a box may have it attached.
		if c.file != 0 && !s.handles.isImageOf(meta.File, d) {
			meta.File, meta.Whole = c.file, c.whole
		}
		return !known || charged != 0 || c.file != 0
	})
}

// changeMeta changes the metadata of a manifest if change returns true. Without an entry, change
// gets the zero Meta and false. It is called once, with metaMu held, so it must not call anything
// that locks it.
func (s *Store) changeMeta(d agentbox.Digest, change func(m *index.Meta, known bool) bool) error {
	s.metaMu.Lock()
	defer s.metaMu.Unlock()
	m, known, err := s.index.Meta(d)
	if err != nil || !change(&m, known) {
		return err
	}
	var b index.Batch
	if err := b.SetMeta(d, m); err != nil {
		return err
	}
	return s.index.Apply(&b)
}

// splitInto stores a stream's chunks: one goroutine cuts, others hash, compress and write. Each
// writes its digest at the index that the chunk got when it was cut, so the order is kept.
func (s *Store) splitInto(ctx context.Context, w *writer, r io.Reader, m *blob.Manifest) error {
	if !m.Kind.Valid() {
		return agentbox.Errorf(agentbox.Invalid, "unknown kind %q", m.Kind)
	}
	workers := newWorkers(ctx)
	err := blob.Split(contextReader{workers.ctx, r}, func(p []byte) error {
		// This goroutine appends to m.Chunks while workers write into it, so both hold the workers'
		// mutex.
		i := len(m.Chunks)
		workers.locked(func() { m.Chunks = append(m.Chunks, blob.Chunk{Size: len(p)}) })
		m.Size += int64(len(p))
		piece := append(workers.buffer()[:0], p...)
		return workers.do(func(ctx context.Context) error {
			defer workers.recycle(piece)
			d, err := s.putChunk(ctx, w, piece)
			workers.locked(func() { m.Chunks[i].Digest = d })
			return err
		})
	})
	err = workers.wait(err)
	// An error of r has no code of ours, so say where it happened.
	if err != nil && agentbox.CodeOf(err) == agentbox.Internal && ctx.Err() == nil {
		err = fmt.Errorf("storing a stream, after %d bytes: %w", m.Size, err)
	}
	return err
}

// putChunk stores one chunk of a stream in a pack, unless it is in the store, and returns its
// digest. For zeros, which are not stored, this is the zero digest.
func (s *Store) putChunk(ctx context.Context, w *writer, p []byte) (agentbox.Digest, error) {
	if blob.IsZero(p) {
		return agentbox.Digest{}, nil
	}
	d, here, err := w.identify(p)
	if here || err != nil {
		return d, err
	}
	return d, w.putPack(ctx, d, p)
}

// contextReader stops reading when ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// useInterval is the time between two uses that count separately. A scan that touches everything
// once, or one blob often, must not make it look valuable.
const useInterval = 10 * time.Minute

// touch records that a manifest was used, for eviction (evictsBefore). It is called when a blob is
// opened for reading, but not by Get, since a peer that fetches chunks does not show what this host
// needs.
func (s *Store) touch(d agentbox.Digest) error {
	now := s.cfg.Now().UTC()
	return s.changeMeta(d, func(m *index.Meta, known bool) bool {
		if !known || now.Sub(m.Used) < useInterval && m.Uses > 0 {
			return false
		}
		m.Used = now
		m.Uses++
		return true
	})
}
