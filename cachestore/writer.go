package cachestore

import (
	"context"
	"errors"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// writer stores the pieces of one blob. It claims none of them before flush. Until close, gc does
// not remove what it wrote or found. Its methods are safe for concurrent use, except that close
// comes after all others.
type writer struct {
	s *Store
	// kind is the kind whose quota is charged; "" for a repair, which is charged to none.
	kind blob.Kind
	// claims has every piece that this writer wrote or found, flushed or not.
	claims *claims
	// mu guards the fields below it. It is held during flush with its syncs and its write to the
	// index, so that no piece is added between claiming and clearing pending.
	mu      sync.Mutex
	pending map[agentbox.Digest]index.Location // written and not yet claimed
	bytes   int64                              // of pending
	// known are fingerprints to be recorded with the next flush.
	known map[blob.Fingerprint]agentbox.Digest
	// packs counts the pending pieces of each pack. guard.releasePack is due as often.
	packs  map[uint64]int
	images map[uint64]*blockFile // open for writing
	// charged is the number of bytes on disk, including the headers of records, that were written
	// and not yet charged to a manifest (charge).
	charged int64
}

// blockFile is an image file that is being written. gc does not punch it until release is called.
type blockFile struct {
	disk.File
	id      uint64
	release func()
	// dirty is set when something was written since the last sync. The writer's mutex guards it.
	dirty bool
	// writing is held during a write; see WriteAt.
	writing sync.Mutex
}

// WriteAt serializes writes. The file system has a lock for that, but waiters spin on it and use as
// much processor time as the writing itself (docs/internals/measurements.md, the store).
func (b *blockFile) WriteAt(p []byte, off int64) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.File.WriteAt(p, off)
}

// newWriter starts a writer. The caller closes it, even after an error.
func (s *Store) newWriter(kind blob.Kind) *writer {
	return &writer{
		s: s, kind: kind, claims: s.guard.newClaims(),
		pending: map[agentbox.Digest]index.Location{}, known: map[blob.Fingerprint]agentbox.Digest{}, packs: map[uint64]int{}, images: map[uint64]*blockFile{},
	}
}

// flushBytes bounds what a crash costs a long write: when so many bytes are pending, they are
// synced and claimed. Flushing each chunk would sync for each chunk.
const flushBytes = 64 << 20

// has reports whether a piece is in the store. If so, it stays until the writer is closed. has adds
// the protection before it looks: gc removes a claim under the same lock, so it either sees ours,
// or has removed the piece before we look.
func (w *writer) has(d agentbox.Digest) (bool, error) {
	w.claims.add(d)
	w.mu.Lock()
	_, ok := w.pending[d]
	w.mu.Unlock()
	if ok {
		return true, nil
	}
	_, ok, err := w.s.index.Chunk(d)
	return ok, err
}

// isAt reports whether a piece is at an offset of an image file, by this writer and the index.
func (w *writer) isAt(d agentbox.Digest, image uint64, off int64) bool {
	w.mu.Lock()
	p, ok := w.pending[d]
	w.mu.Unlock()
	if !ok {
		var err error
		if p, ok, err = w.s.index.Chunk(d); err != nil {
			return false
		}
	}
	return ok && p.Image && p.File == image && p.Off == off
}

// get reads a pending piece of this writer, or any other piece. max and buf are those of
// Store.read. It accepts a matching fingerprint in place of SHA-256.
func (w *writer) get(ctx context.Context, d agentbox.Digest, max int, buf []byte) ([]byte, error) {
	w.mu.Lock()
	p, ok := w.pending[d]
	w.mu.Unlock()
	if ok {
		return w.s.readLocation(d, p, buf, w.s.checkFast)
	}
	return w.s.read(ctx, d, max, buf, w.s.checkFast)
}

// putPack stores a chunk in a pack, unless it is in the store.
func (w *writer) putPack(ctx context.Context, d agentbox.Digest, piece []byte) error {
	return w.putRecord(ctx, pack.Chunk, d, piece)
}

// putRecord stores a chunk or a manifest in the current pack, unless it is in the store. It
// reserves the space before it writes, which may run a gc.
func (w *writer) putRecord(ctx context.Context, what pack.Kind, d agentbox.Digest, piece []byte) error {
	if ok, err := w.has(d); ok || err != nil {
		return err
	}
	r, stored := w.s.encodeRecord(what, d, piece)
	n := int64(len(stored)) + pack.HeaderSize
	if err := w.s.space.reserve(ctx, w.kind, n); err != nil {
		return err
	}
	defer w.s.space.release(n)
	p, err := w.s.packs.append(r, stored)
	if err != nil {
		return err
	}
	w.addPending(d, p, n)
	w.mu.Lock()
	w.packs[p.File]++
	full := w.bytes >= flushBytes
	w.mu.Unlock()
	if full {
		return w.flush()
	}
	return nil
}

// addPending records a piece of n bytes on disk at p, and makes it visible to ReadStored.
func (w *writer) addPending(d agentbox.Digest, p index.Location, n int64) {
	w.s.space.add(w.kind, n)
	w.s.unflushed.Store(d, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[d] = p
	w.bytes += n
	w.charged += n
}

// putBlock stores a block in an image file that this writer has open. The block may be elsewhere
// too: the new claim replaces the old one.
func (w *writer) putBlock(ctx context.Context, f *blockFile, d agentbox.Digest, piece []byte, off int64) error {
	n := int64(len(piece))
	if err := w.s.space.reserve(ctx, w.kind, n); err != nil {
		return err
	}
	defer w.s.space.release(n)
	if _, err := f.WriteAt(piece, off); err != nil {
		return w.s.hostError(err)
	}
	w.addPending(d, index.Location{Image: true, File: f.id, Off: off, Stored: uint32(n), Size: uint32(n), Seen: w.s.claimTime()}, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	f.dirty = true
	return nil
}

// putBlockIn is putBlock for an existing image file, which it opens. The error wraps fs.ErrNotExist
// when the file is gone.
func (w *writer) putBlockIn(ctx context.Context, id uint64, owner, d agentbox.Digest, piece []byte, off int64) error {
	f, err := w.openImage(id, owner)
	if err != nil {
		return err
	}
	w.claims.add(d)
	return w.putBlock(ctx, f, d, piece, off)
}

// openImage opens an image file for writing, once per writer. It stays open until close.
func (w *writer) openImage(id uint64, owner agentbox.Digest) (*blockFile, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.images[id]; f != nil {
		return f, nil
	}
	// gc holds imageMu while it punches a file. Once we have held it, gc is done with the file or
	// sees that it is being written.
	w.s.imageMu.Lock()
	release := w.s.guard.holdImage(id)
	w.s.imageMu.Unlock()
	f, err := w.s.fs.Open(w.s.path(imagesDir, imageName(id, owner)), true)
	if err != nil {
		release()
		return nil, w.s.hostError(err)
	}
	w.images[id] = &blockFile{File: f, id: id, release: release}
	return w.images[id], nil
}

// flush syncs what was written, and then claims it. Before that, only ReadStored sees it. After an
// error the pieces are still pending, and the next flush tries again.
func (w *writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A pack whose sync failed once fails forever (packs.failed), because its bytes may be lost.
	for id := range w.packs {
		if err := w.s.packs.sync(id); err != nil {
			return err
		}
	}
	for _, f := range w.images {
		if !f.dirty {
			continue
		}
		if err := f.Sync(); err != nil {
			return w.s.hostError(err)
		}
		f.dirty = false
	}
	var b index.Batch
	for d, p := range w.pending {
		b.SetChunk(d, p)
	}
	for f, d := range w.known {
		b.SetFingerprint(f, d)
	}
	if err := w.s.index.Apply(&b); err != nil {
		return err
	}
	for d := range w.pending {
		w.s.quarantine.repaired(d)
	}
	w.forgetUnflushed()
	clear(w.pending)
	clear(w.known)
	w.releasePacks()
	w.bytes = 0
	return nil
}

// charge calls set, which records the bytes written so far as charged to a manifest. Bytes that are
// charged to no manifest by the time of close no longer count for the kind.
func (w *writer) charge(set func(written int64) error) error {
	w.mu.Lock()
	written := w.charged
	w.mu.Unlock()
	if err := set(written); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charged -= written
	return nil
}

// forgetUnflushed removes the pending pieces from Store.unflushed, except for entries of other
// writers. Callers hold mu.
func (w *writer) forgetUnflushed() {
	for d, p := range w.pending {
		w.s.unflushed.CompareAndDelete(d, p)
	}
}

// releasePacks lets gc process the packs with this writer's pieces again. Callers hold mu.
func (w *writer) releasePacks() {
	for id, n := range w.packs {
		w.s.guard.releasePack(id, n)
	}
	clear(w.packs)
}

// close releases what the writer holds, and leaves unflushed bytes, which are in files without a
// claim, to gc. It is called once, even after an error.
func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, f := range w.images {
		errs = append(errs, f.Close())
		f.release()
	}
	clear(w.images)
	w.forgetUnflushed()
	w.releasePacks()
	w.claims.release()
	w.s.space.uncharge(w.kind, w.charged)
	w.charged = 0
	return errors.Join(errs...)
}
