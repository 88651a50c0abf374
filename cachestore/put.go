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

// Stored is what a put did. A blob that was here already gives the same manifest and writes next to
// nothing.
type Stored struct {
	Manifest agentbox.Digest `json:"manifest"`
	Size     int64           `json:"size"`    // bytes of the blob
	Written  int64           `json:"written"` // bytes that were not here before, as they lie on disk
}

// PutStream cuts r where its content says and stores it. What it returns is on disk. Until it is
// named or pinned it stays for the grace period.
//
// info.Kind must be one of blob.Kinds (else Invalid); it decides which quota is charged. NoSpace
// when neither the quota nor the disk has room after a gc. An error of r is wrapped. What was
// written before an error is garbage, which gc removes; nothing has to be undone. r is read by one
// goroutine, one read after the other.
func (s *Store) PutStream(ctx context.Context, r io.Reader, info blob.Info) (Stored, error) {
	w := s.newWriter(info.Kind)
	m := blob.Manifest{Info: info}
	err := s.splitInto(ctx, w, r, &m)
	var out Stored
	if err == nil {
		out, err = s.commit(ctx, w, m, commitment{})
	}
	return out, errors.Join(err, w.close())
}

// commitment is what else a manifest comes with: nothing for a stream.
type commitment struct {
	// file is the number of its image file, whole whether that holds every chunk by itself.
	file  uint64
	whole bool
}

// commit stores the manifest of what w wrote, and only then makes it known. It is flushed between
// the two, so that a manifest that is known has all its chunks claimed, on disk. The caller closes
// w afterwards: until then gc cannot take chunks of which this blob is the first to need them.
func (s *Store) commit(ctx context.Context, w *writer, m blob.Manifest, c commitment) (Stored, error) {
	if err := m.Check(); err != nil {
		return Stored{}, agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	encoded := m.Encode()
	if len(encoded) > blob.MaxManifest {
		return Stored{}, agentbox.Errorf(agentbox.Invalid, "a blob of %d bytes in %d chunks is too large for one manifest", m.Size, len(m.Chunks))
	}
	d := blob.Sum(encoded)
	defer s.guard.hold(d)()
	if err := w.putRecord(ctx, pack.Manifest, d, encoded); err != nil {
		return Stored{}, err
	}
	if err := w.flush(); err != nil {
		return Stored{}, err
	}
	out := Stored{Manifest: d, Size: m.Size}
	err := w.charge(func(written int64) error {
		out.Written = written
		return s.addMeta(d, m, written, c)
	})
	return out, err
}

// addMeta makes a manifest known whose bytes are here, or adds to what is known: charged bytes
// more, or an image file. Its chunks are guarded first, for a gc that has marked already would take
// them for garbage.
func (s *Store) addMeta(d agentbox.Digest, m blob.Manifest, charged int64, c commitment) error {
	now := s.cfg.Now().UTC()
	s.guard.protect(m)
	return s.changeMeta(d, func(meta *index.Meta, known bool) bool {
		if !known {
			*meta = index.Meta{
				Kind: m.Kind, MediaType: m.MediaType, Size: m.Size, Chunks: len(m.Chunks), Blocks: m.Blocks, Created: now, Used: now,
			}
		}
		meta.Charged += charged
		// A file that it has stays its file: a box may have it attached.
		if c.file != 0 && !s.handles.isImageOf(meta.File, d) {
			meta.File, meta.Whole = c.file, c.whole
		}
		return !known || charged != 0 || c.file != 0
	})
}

// changeMeta changes what is known of a manifest when change says so. change sees the zero Meta and
// false for one that is not known; it is called once, with metaMu held, so it must not call
// anything that takes it.
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
// writes its digest into the place in the list that it had when it was cut, so the order stays,
// whichever is done first.
func (s *Store) splitInto(ctx context.Context, w *writer, r io.Reader, m *blob.Manifest) error {
	if !m.Kind.Valid() {
		return agentbox.Errorf(agentbox.Invalid, "unknown kind %q", m.Kind)
	}
	workers := newWorkers(ctx)
	err := blob.Split(contextReader{workers.ctx, r}, func(p []byte) error {
		// The slice of m is appended to while workers write into it, so both hold the workers'
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
	// An error of r's has no code of ours: where it stopped is what its reader would ask first.
	if err != nil && agentbox.CodeOf(err) == agentbox.Internal && ctx.Err() == nil {
		err = fmt.Errorf("storing a stream, after %d bytes: %w", m.Size, err)
	}
	return err
}

// putChunk stores one chunk of a stream in a pack, unless it is here, and gives its digest: the
// zero one for zeros, which are not stored.
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

// useAgain is how far apart two uses must be to count twice: a scan that touches everything once,
// or one thing often, must not make it look precious.
const useAgain = 10 * time.Minute

// touch remembers that a manifest was used, which is what eviction goes by (cheaper). It is called
// by whatever opens a blob for reading, not by Get: a peer that fetches chunks says nothing of what
// this host needs.
func (s *Store) touch(d agentbox.Digest) error {
	now := s.cfg.Now().UTC()
	return s.changeMeta(d, func(m *index.Meta, known bool) bool {
		if !known || now.Sub(m.Used) < useAgain && m.Uses > 0 {
			return false
		}
		m.Used = now
		m.Uses++
		return true
	})
}
