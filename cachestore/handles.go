package cachestore

import (
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// maxHandles bounds the files that stay open for reading while nobody reads them. Files that are
// being read count, but are never closed for it.
const maxHandles = 128

// fileKey identifies a pack or an image file: one counter, but different names.
type fileKey struct {
	image bool
	id    uint64
}

func keyOf(p index.Location) fileKey { return fileKey{p.Image, p.File} }

// handles keeps files open for reading, and knows which image a number belongs to. An image's file
// name holds its manifest, which a claim does not say, so images has it for every image file. mu
// guards both maps and the counts in the handles.
type handles struct {
	s      *Store
	mu     sync.Mutex
	open   map[fileKey]*handle
	images map[uint64]agentbox.Digest
}

// handle is a file that is open for reading, with the number of its readers.
type handle struct {
	disk.File
	refs      int
	forgotten bool // no longer in the map; its last reader closes it
}

func (h *handles) init(s *Store) {
	h.s, h.open, h.images = s, map[fileKey]*handle{}, map[uint64]agentbox.Digest{}
}

// get returns a file open for reading; the caller returns it with put. The error wraps
// fs.ErrNotExist when there is no such file.
func (h *handles) get(k fileKey) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.open[k]; f != nil {
		f.refs++
		return f, nil
	}
	f, err := h.s.fs.Open(h.name(k), false)
	if err != nil {
		return nil, err
	}
	h.trim()
	h.open[k] = &handle{File: f, refs: 1}
	return h.open[k], nil
}

// put returns a file, and closes it if it was forgotten and has no other reader.
func (h *handles) put(f *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.refs--; f.refs == 0 && f.forgotten {
		f.Close()
	}
}

// name returns the path of a file. Callers hold mu, or call path.
func (h *handles) name(k fileKey) string {
	if k.image {
		return h.s.path(imagesDir, imageName(k.id, h.images[k.id]))
	}
	return h.s.path(packsDir, packName(k.id))
}

// path returns the path of a file, whether or not it exists.
func (h *handles) path(k fileKey) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name(k)
}

func (h *handles) register(id uint64, manifest agentbox.Digest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.images[id] = manifest
}

// imageOf returns the manifest of an image file, or false when there is no such file.
func (h *handles) imageOf(id uint64) (agentbox.Digest, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.images[id]
	return d, ok
}

func (h *handles) isImageOf(id uint64, manifest agentbox.Digest) bool {
	owner, ok := h.imageOf(id)
	return ok && owner == manifest
}

// imageFile returns the number of the image file of a manifest, or false when there is none. Of
// several it returns the oldest, because a box may have it attached.
func (h *handles) imageFile(manifest agentbox.Digest) (id uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, d := range h.images {
		if d == manifest && (!ok || n < id) {
			id, ok = n, true
		}
	}
	return id, ok
}

// trim closes files without readers while too many are open. Callers hold mu.
func (h *handles) trim() {
	for k, f := range h.open {
		if len(h.open) < maxHandles {
			return
		}
		if f.refs == 0 {
			f.Close()
			delete(h.open, k)
		}
	}
}

// forget keeps new readers from opening a file that is about to be removed.
func (h *handles) forget(k fileKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(k)
	if k.image {
		delete(h.images, k.id)
	}
}

// drop removes a file from the map. Callers hold mu.
func (h *handles) drop(k fileKey) {
	f := h.open[k]
	if f == nil {
		return
	}
	delete(h.open, k)
	if f.forgotten = true; f.refs == 0 {
		f.Close()
	}
}

// close closes all files without readers; the last reader of each other file closes it.
func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.open {
		h.drop(k)
	}
}
