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

// writer stores the pieces of one blob. Nothing it wrote is claimed before flush, and gc leaves
// alone what it wrote or found until close. Its methods may be called at once; close comes
// after all of them.
type writer struct {
	s *Store
	// kind is whose quota is charged; "" for a repair, which is charged to none.
	kind blob.Kind
	// claims has every piece that this writer wrote or found, whether or not it is flushed.
	claims *claims
	// mu guards what follows. It is held during flush, with its syncs and the write to the index: a
	// piece that comes meanwhile waits, so that what is flushed and what is forgotten as pending is
	// the same.
	mu      sync.Mutex
	pending map[agentbox.Digest]index.Location // written and not yet claimed
	bytes   int64                              // of pending
	// known are fingerprints to be remembered with the next flush.
	known map[blob.Fingerprint]agentbox.Digest
	// packs are those with pending pieces, and how many, which is how often guard.filled is due.
	packs  map[uint64]int
	images map[uint64]*blockFile // open for writing
	// charged is what was written and is charged to the kind, as it lies on disk, headers of
	// records included. The owner of the writer charges it to a manifest (charge).
	charged int64
}

// blockFile is an image file that is being written. gc does not punch it until release is called.
type blockFile struct {
	disk.File
	id      uint64
	release func()
	// dirty says that something was written since the last sync; it is guarded by the writer's
	// mutex.
	dirty bool
	// writing is held during a write, see WriteAt.
	writing sync.Mutex
}

// WriteAt lets one goroutine write at a time. The file system has a lock for that, but waiters spin
// on it and burn as much processor time as the writing takes (docs/internals/measurements.md, the
// store).
func (f *blockFile) WriteAt(p []byte, off int64) (int, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.File.WriteAt(p, off)
}

// newWriter begins a writer; the caller closes it, also after an error.
func (s *Store) newWriter(kind blob.Kind) *writer {
	return &writer{
		s: s, kind: kind, claims: s.guard.newClaims(),
		pending: map[agentbox.Digest]index.Location{}, known: map[blob.Fingerprint]agentbox.Digest{}, packs: map[uint64]int{}, images: map[uint64]*blockFile{},
	}
}

// flushBytes bounds what a crash costs of a long write: once so many bytes are pending they are
// synced and claimed. A flush for each chunk would be a sync for each chunk.
const flushBytes = 64 << 20

// has reports whether a piece is here, and from then on it stays until the writer is closed. The
// claim comes before the look: gc, which takes a claim back under the same lock, either sees ours
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

// liesAt reports whether a piece lies at a place of an image file, as far as this writer and the
// index know.
func (w *writer) liesAt(d agentbox.Digest, image uint64, off int64) bool {
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

// get reads a piece that this writer wrote and has not claimed yet, or any other. max and buf are
// those of Store.read; a fingerprint is believed.
func (w *writer) get(ctx context.Context, d agentbox.Digest, max int, buf []byte) ([]byte, error) {
	w.mu.Lock()
	p, ok := w.pending[d]
	w.mu.Unlock()
	if ok {
		return w.s.readLocation(d, p, buf, w.s.recognise)
	}
	return w.s.read(ctx, d, max, buf, w.s.recognise)
}

// putPack stores a chunk in a pack, unless it is here.
func (w *writer) putPack(ctx context.Context, d agentbox.Digest, piece []byte) error {
	return w.putRecord(ctx, pack.Chunk, d, piece)
}

// putRecord stores a chunk or a manifest in the present pack, unless it is here. Room is made
// before anything is written, by a gc if it must be.
func (w *writer) putRecord(ctx context.Context, what pack.What, d agentbox.Digest, piece []byte) error {
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
	w.account(d, p, n)
	w.mu.Lock()
	w.packs[p.File]++
	full := w.bytes >= flushBytes
	w.mu.Unlock()
	if full {
		return w.flush()
	}
	return nil
}

// account records a piece of n bytes on disk that lies at p now, and shows it to Stored before it
// is claimed.
func (w *writer) account(d agentbox.Digest, p index.Location, n int64) {
	w.s.space.add(w.kind, n)
	w.s.fresh.Store(d, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[d] = p
	w.bytes += n
	w.charged += n
}

// putBlock stores a block in an image file that this writer has open. It may be a block that lies
// elsewhere too: the newer claim takes the place of the older.
func (w *writer) putBlock(ctx context.Context, f *blockFile, d agentbox.Digest, piece []byte, off int64) error {
	n := int64(len(piece))
	if err := w.s.space.reserve(ctx, w.kind, n); err != nil {
		return err
	}
	defer w.s.space.release(n)
	if _, err := f.WriteAt(piece, off); err != nil {
		return w.s.hostError(err)
	}
	w.account(d, index.Location{Image: true, File: f.id, Off: off, Stored: uint32(n), Size: uint32(n), Seen: w.s.seen()}, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	f.dirty = true
	return nil
}

// putBlockIn is putBlock for an image file that is there already, which it opens; an error that
// wraps fs.ErrNotExist says that it no longer is.
func (w *writer) putBlockIn(ctx context.Context, id uint64, owner, d agentbox.Digest, piece []byte, off int64) error {
	f, err := w.openImage(id, owner)
	if err != nil {
		return err
	}
	w.claims.add(d)
	return w.putBlock(ctx, f, d, piece, off)
}

// openImage opens an image file for writing, once for each writer. It stays open until close.
func (w *writer) openImage(id uint64, owner agentbox.Digest) (*blockFile, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.images[id]; f != nil {
		return f, nil
	}
	// gc has imageMu while it punches a file: once we have had it, it either is done or sees that
	// the file is being written.
	w.s.imageMu.Lock()
	release := w.s.guard.write(id)
	w.s.imageMu.Unlock()
	f, err := w.s.fs.Open(w.s.path(imagesDir, imageName(id, owner)), true)
	if err != nil {
		release()
		return nil, w.s.hostError(err)
	}
	w.images[id] = &blockFile{File: f, id: id, release: release}
	return w.images[id], nil
}

// flush syncs what was written, and then claims it. Only then do others see it, except through
// Stored. After an error the pieces are still pending, and the next flush tries again.
func (w *writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A pack whose sync failed once fails here for good (packs.lost): what it held may be gone.
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
		b.Remember(f, d)
	}
	if err := w.s.index.Apply(&b); err != nil {
		return err
	}
	for d := range w.pending {
		w.s.quarantine.repaired(d)
	}
	w.forgetFresh()
	clear(w.pending)
	clear(w.known)
	w.leavePacks()
	w.bytes = 0
	return nil
}

// charge has set record what was written so far as charged to a manifest. What no manifest is
// charged with by the time of close is not charged to the kind any more either.
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

// forgetFresh removes from fresh the pending pieces, which are claimed now or never will be. An
// entry that another writer made stays. Callers hold mu.
func (w *writer) forgetFresh() {
	for d, p := range w.pending {
		w.s.fresh.CompareAndDelete(d, p)
	}
}

// leavePacks lets gc judge the packs again that pieces were written to. Callers hold mu.
func (w *writer) leavePacks() {
	for id, n := range w.packs {
		w.s.guard.filled(id, n)
	}
	clear(w.packs)
}

// close releases what the writer holds. What was not flushed is left for gc: bytes in files without
// a claim. It is called once, also after errors.
func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, f := range w.images {
		errs = append(errs, f.Close())
		f.release()
	}
	clear(w.images)
	w.forgetFresh()
	w.leavePacks()
	w.claims.release()
	w.s.space.uncharge(w.kind, w.charged)
	w.charged = 0
	return errors.Join(errs...)
}
