package cachestore

import (
	"context"
	"errors"
	"io/fs"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// rebuild claims what the files hold. It hashes everything, and adds to what the index has: a claim
// that stands is not looked at, as Verify is for those. progress, which may be nil, is told bytes.
// Callers see to it that no gc runs: what is claimed here may be what it has just judged to be
// free.
//
// Packs come before images, as the manifests that say what an image's blocks are lie in packs.
// Names and pins need no rebuilding: they are files.
func (s *Store) rebuild(ctx context.Context, progress func(done, total int64)) error {
	r := &rebuilding{s: s, progress: progress, total: s.space.usedBytes(), claimed: map[uint64]int64{}}
	packs, err := s.idlePacks()
	if err != nil {
		return err
	}
	for _, id := range packs {
		if err := r.pack(ctx, id); err != nil {
			return err
		}
	}
	if err := r.charge(ctx); err != nil {
		return err
	}
	// Manifests are in packs, so by now those are known by which the images are read.
	images, err := s.list(imagesDir)
	if err != nil {
		return err
	}
	for _, name := range images {
		if id, owner, ok := parseImage(name); ok && !s.guard.isWritten(id) {
			if err := r.image(ctx, id, owner); err != nil {
				return err
			}
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	return s.space.count(ctx, s.index.EachMeta)
}

// rebuilding is one run of it.
type rebuilding struct {
	s           *Store
	batch       index.Batch
	done, total int64
	progress    func(done, total int64)
	// claimed are the bytes on disk of the pieces of packs that were claimed just now, by their
	// short digests, and revived the manifests that were not known, in the order of the packs.
	claimed map[uint64]int64
	revived []agentbox.Digest
}

// charge charges the manifests that became known with what was claimed for them. What several share
// counts for the first, as when it was written. Image files are counted by assignFile.
func (r *rebuilding) charge(ctx context.Context) error {
	for _, d := range r.revived {
		m, err := r.s.Manifest(ctx, d)
		if mayFetch(err) {
			continue // damaged meanwhile
		}
		if err != nil {
			return err
		}
		charged := int64(0)
		for _, c := range append(m.Chunks, blob.Chunk{Digest: d}) {
			charged += r.claimed[shortDigest(c.Digest)]
			delete(r.claimed, shortDigest(c.Digest))
		}
		if err := r.s.addMeta(d, m, charged, commitment{}); err != nil {
			return err
		}
	}
	return nil
}

// add counts bytes that were looked at.
func (r *rebuilding) add(n int64) {
	if r.done += n; r.progress != nil {
		r.progress(min(r.done, r.total), r.total)
	}
}

// flush applies the changes so far, at most a thousand, so that a long rebuild that is interrupted
// need not begin at nothing.
func (r *rebuilding) flush() error {
	err := r.s.index.Apply(&r.batch)
	r.batch = index.Batch{}
	return err
}

// claim adds a claim unless the chunk, whose bytes are b, is claimed.
func (r *rebuilding) claim(d agentbox.Digest, p index.Location, b []byte) error {
	if _, ok, err := r.s.index.Chunk(d); ok || err != nil {
		return err
	}
	p.Seen = r.s.seen()
	if !p.Image {
		r.claimed[shortDigest(d)] = int64(p.Stored) + pack.HeaderSize
	}
	r.batch.SetChunk(d, p)
	r.batch.Remember(r.s.prints.Of(b), d)
	r.s.quarantine.repaired(d)
	// Half of what one transaction of the index takes (index.Batch).
	if r.batch.Len() < 1000 {
		return nil
	}
	return r.flush()
}

// pack claims the records of one pack that are what their headers say.
func (r *rebuilding) pack(ctx context.Context, id uint64) error {
	k := fileKey{id: id}
	f, err := r.s.handles.get(k)
	if err != nil {
		return r.s.hostError(err)
	}
	defer r.s.handles.put(f)
	// A process that was killed may have left bytes that are in memory only: they must last before
	// they are claimed.
	if err := f.Sync(); err != nil {
		return r.s.hostError(err)
	}
	st, err := f.Stat()
	if err != nil {
		return r.s.hostError(err)
	}
	return pack.Scan(f, st.Size, func(rec pack.Record, off int64) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		r.add(int64(rec.Stored))
		p := index.Location{File: id, Off: off, Stored: uint32(rec.Stored), Size: uint32(rec.Size), Encoding: rec.Encoding}
		b, err := r.s.readLocation(rec.Digest, p, nil, blob.Check)
		if err != nil {
			return false, r.skip(rec.Digest, err)
		}
		if err := r.claim(rec.Digest, p, b); err != nil || rec.What != pack.Manifest {
			return true, err
		}
		m, err := blob.DecodeManifest(b)
		if err != nil {
			return true, nil // nonsense that somebody stored: it is a chunk like any other, and garbage
		}
		// The manifest is claimed before it is made known.
		if err := r.flush(); err != nil {
			return true, err
		}
		if _, known, err := r.s.index.Meta(rec.Digest); err != nil || known {
			return true, err
		}
		r.revived = append(r.revived, rec.Digest)
		return true, r.s.addMeta(rec.Digest, m, 0, commitment{})
	})
}

// skip passes over what is damaged, unless the disk failed in a way that says nothing about the
// bytes.
func (r *rebuilding) skip(d agentbox.Digest, err error) error {
	if !lostBytes(err) {
		return r.s.hostError(err)
	}
	r.s.log.Warn("store: damaged, not claimed", "chunk", d.Short(), "error", err)
	return nil
}

// image claims the blocks of an image file that are what its manifest says.
//
// Blocks that are holes lack nothing: a lazy image has them. A block that does not match is passed
// over and is got again like one that never came.
func (r *rebuilding) image(ctx context.Context, id uint64, owner agentbox.Digest) error {
	m, err := r.s.Manifest(ctx, owner)
	if mayFetch(err) && err != nil {
		return nil // without the manifest nobody knows what the blocks are
	}
	if err != nil || !m.Blocks {
		return err
	}
	f, err := r.s.handles.get(fileKey{true, id})
	if err != nil {
		return r.s.hostError(err)
	}
	defer r.s.handles.put(f)
	if err := f.Sync(); err != nil {
		return r.s.hostError(err)
	}
	whole := true
	var charged int64
	buf := make([]byte, blob.BlockSize)
	next := dataFinder(f)
	for _, i := range m.Data() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := m.Chunks[i]
		right, err := r.block(c, id, int64(i)*blob.BlockSize, next, buf)
		if err != nil {
			return err
		}
		if right {
			charged += int64(c.Size)
		}
		whole = whole && right
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.assignFile(owner, id, whole, charged)
}

// block claims the block at off of an image file, and tells whether it is there and what the
// manifest says. next finds data from a place on; buf has room for a block.
func (r *rebuilding) block(c blob.Chunk, file uint64, off int64, next func(int64) (int64, error), buf []byte) (bool, error) {
	data, err := next(off)
	if err != nil {
		return false, r.s.hostError(err)
	}
	if data >= off+blob.BlockSize {
		return false, nil
	}
	p := index.Location{Image: true, File: file, Off: off, Stored: uint32(c.Size), Size: uint32(c.Size)}
	r.add(int64(c.Size))
	b, err := r.s.readLocation(c.Digest, p, buf, blob.Check)
	if err != nil {
		return false, r.skip(c.Digest, err)
	}
	return true, r.claim(c.Digest, p, b)
}

// assignFile gives a manifest its image file, the most complete if there are several: two may have
// been begun when a crash came between naming one and saying so in the index.
func (r *rebuilding) assignFile(owner agentbox.Digest, id uint64, whole bool, charged int64) error {
	return r.s.changeMeta(owner, func(m *index.Meta, known bool) bool {
		if !known || m.File != 0 && m.Whole && m.File != id {
			return false
		}
		m.File, m.Whole, m.Charged = id, whole, charged
		return true
	})
}

// rebuildMark is the file that says that the index lacks what is in the files.
type rebuildMark struct{ dir }

// begin makes the mark. It comes before the index is emptied: an interrupted rebuild would
// otherwise leave one that looks complete, and gc would remove all that it does not have.
func (m rebuildMark) begin() error {
	return m.hostError(disk.Replace(m.fs, m.path(rebuildName), nil))
}

// begun reports whether a rebuild was begun and has not ended.
func (m rebuildMark) begun() (bool, error) {
	f, err := m.fs.Open(m.path(rebuildName), false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, m.hostError(err)
	}
	return true, f.Close()
}

// end removes the mark. If that does not last, the next Open rebuilds once more.
func (m rebuildMark) end() error { return m.hostError(m.fs.Remove(m.path(rebuildName))) }
