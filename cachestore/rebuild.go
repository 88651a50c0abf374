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

// rebuild claims what the files hold, after hashing it. It adds to the index and does not check
// existing claims, as Verify does. progress, which may be nil, receives bytes. The caller ensures
// that no gc runs, which might free what is being claimed.
//
// Packs come before images, because manifests, which list the blocks of images, are in packs. Names
// and pins are files and need no rebuilding.
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

// rebuilding is one rebuild.
type rebuilding struct {
	s           *Store
	batch       index.Batch
	done, total int64
	progress    func(done, total int64)
	// claimed has the bytes on disk of the pieces of packs that were just claimed, by short
	// digests. restored lists the manifests that had no metadata, in the order of the packs.
	claimed  map[uint64]int64
	restored []agentbox.Digest
}

// charge charges the restored manifests with what was claimed for them. A shared chunk counts for
// the first, as when it was written. assignFile charges image files.
func (r *rebuilding) charge(ctx context.Context) error {
	for _, d := range r.restored {
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

func (r *rebuilding) add(n int64) {
	if r.done += n; r.progress != nil {
		r.progress(min(r.done, r.total), r.total)
	}
}

// flush applies some thousand changes, so that an interrupted rebuild continues from there.
func (r *rebuilding) flush() error {
	err := r.s.index.Apply(&r.batch)
	r.batch = index.Batch{}
	return err
}

// claim adds a claim on a chunk, whose bytes are b, unless it has one.
func (r *rebuilding) claim(d agentbox.Digest, p index.Location, b []byte) error {
	if _, ok, err := r.s.index.Chunk(d); ok || err != nil {
		return err
	}
	p.Seen = r.s.claimTime()
	if !p.Image {
		r.claimed[shortDigest(d)] = int64(p.Stored) + pack.HeaderSize
	}
	r.batch.SetChunk(d, p)
	r.batch.SetFingerprint(r.s.fingerprints.Sum(b), d)
	r.s.quarantine.repaired(d)
	// Half of what one transaction of the index takes (index.Batch).
	if r.batch.Len() < 1000 {
		return nil
	}
	return r.flush()
}

func (r *rebuilding) pack(ctx context.Context, id uint64) error {
	k := fileKey{id: id}
	f, err := r.s.handles.get(k)
	if err != nil {
		return r.s.hostError(err)
	}
	defer r.s.handles.put(f)
	// A process that was killed may have left bytes in memory only. They must be on disk before
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
		if err := r.claim(rec.Digest, p, b); err != nil || rec.Kind != pack.Manifest {
			return true, err
		}
		m, err := blob.DecodeManifest(b)
		if err != nil {
			return true, nil // not a manifest: a chunk like any other, and garbage
		}
		// Claim the manifest before its metadata is added.
		if err := r.flush(); err != nil {
			return true, err
		}
		if _, known, err := r.s.index.Meta(rec.Digest); err != nil || known {
			return true, err
		}
		r.restored = append(r.restored, rec.Digest)
		return true, r.s.addMeta(rec.Digest, m, 0, commitment{})
	})
}

// skip ignores damaged bytes. It returns an error of the disk that says nothing about them.
func (r *rebuilding) skip(d agentbox.Digest, err error) error {
	if !isDataLost(err) {
		return r.s.hostError(err)
	}
	r.s.log.Warn("store: damaged, not claimed", "chunk", d.Short(), "error", err)
	return nil
}

// image claims the blocks of an image file that match its manifest.
//
// Holes are normal in a lazy image. A block that does not match is skipped, and fetched again like
// one that is missing.
func (r *rebuilding) image(ctx context.Context, id uint64, owner agentbox.Digest) error {
	m, err := r.s.Manifest(ctx, owner)
	if mayFetch(err) && err != nil {
		return nil // without the manifest, the blocks are unknown
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

// block claims the block at off of an image file, and reports whether it is there and correct. next
// is a dataFinder; buf has room for a block.
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

// assignFile records the image file of a manifest, the most complete if there are several. A crash
// between the naming of a file and its record in the index may have left two.
func (r *rebuilding) assignFile(owner agentbox.Digest, id uint64, whole bool, charged int64) error {
	return r.s.changeMeta(owner, func(m *index.Meta, known bool) bool {
		if !known || m.File != 0 && m.Whole && m.File != id {
			return false
		}
		m.File, m.Whole, m.Charged = id, whole, charged
		return true
	})
}

// rebuildMark is the file that marks the index as incomplete.
type rebuildMark struct{ dir }

// begin creates the mark. It comes before the index is emptied: otherwise an interrupted rebuild
// would leave an index that looks complete, and gc would remove everything that is not in it.
func (r rebuildMark) begin() error {
	return r.hostError(disk.Replace(r.fs, r.path(rebuildName), nil))
}

// begun reports whether a rebuild has begun and not ended.
func (r rebuildMark) begun() (bool, error) {
	f, err := r.fs.Open(r.path(rebuildName), false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, r.hostError(err)
	}
	return true, f.Close()
}

// end removes the mark. If a crash brings the mark back, the next Open rebuilds once more.
func (r rebuildMark) end() error { return r.hostError(r.fs.Remove(r.path(rebuildName))) }
