package cachestore

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// guard protects what is in use from gc: chunks that a writer found in the store and relies on,
// open manifests, and files that are being written. What is released while gc runs stays protected
// until gc ends, because gc may have looked at it already.
//
// All of these are reference counts. mu is the last lock to be taken; dropMeta and unclaim hold it
// while they write to the index.
type guard struct {
	mu sync.Mutex
	// chunks is keyed by short digests (shortDigest).
	chunks    map[uint64]int
	manifests map[agentbox.Digest]int
	images    map[uint64]int  // image files that are being written
	packs     map[uint64]int  // packs with pieces that are not claimed yet
	opened    map[uint64]bool // image files that were opened for writing since gc began
	// collecting is set while a gc runs. It is atomic because the index reads it through
	// space.room, even while mu is held.
	collecting atomic.Bool
	deferred   []func() // releases that wait for the end of gc; called with mu held
}

func (g *guard) init() {
	g.chunks, g.manifests = map[uint64]int{}, map[agentbox.Digest]int{}
	g.images, g.packs, g.opened = map[uint64]int{}, map[uint64]int{}, map[uint64]bool{}
}

// begin and end mark the start and end of a gc. Only one runs at a time (Store.gcMu).
func (g *guard) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.opened)
	g.collecting.Store(true)
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collecting.Store(false)
	for _, release := range g.deferred {
		release()
	}
	g.deferred = nil
}

// shortDigest is enough of a digest to tell chunks apart where a collision only keeps garbage.
func shortDigest(d agentbox.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// count adds by to a count, and removes the key when the count is zero.
func count[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// afterGC calls do now, or at the end of a running gc. mu is held during the call.
func (g *guard) afterGC(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.collecting.Load() {
		g.deferred = append(g.deferred, do)
		return
	}
	do()
}

// hold keeps a manifest and its chunks until release is called, even if the manifest is not in the
// store yet. release is safe for concurrent use, and calls after the first have no effect.
func (g *guard) hold(d agentbox.Digest) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.manifests, d, 1)
	return sync.OnceFunc(func() { g.afterGC(func() { count(g.manifests, d, -1) }) })
}

// holdImage keeps gc from punching holes in an image file until release is called.
func (g *guard) holdImage(image uint64) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.images, image, 1)
	g.opened[image] = true
	return sync.OnceFunc(func() { g.afterGC(func() { count(g.images, image, -1) }) })
}

// holdPack keeps gc from moving or removing a pack until releasePack is called as many times.
func (g *guard) holdPack(pack uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.packs, pack, 1)
}

func (g *guard) releasePack(pack uint64, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.packs, pack, -times)
}

// protect keeps the chunks of a manifest whose metadata is being added, until release is called. A
// gc that began before the metadata is visible does not count them among those needed, whether it
// began before protect or after it.
func (g *guard) protect(m blob.Manifest) (release func()) {
	countAll := func(by int) {
		for _, c := range m.Chunks {
			count(g.chunks, shortDigest(c.Digest), by)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	countAll(1)
	return func() { g.afterGC(func() { countAll(-1) }) }
}

func (g *guard) isHeld(d agentbox.Digest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.manifests[d] > 0
}

// busyPack reports whether a pack has pieces that were appended and not flushed. These may be
// claimed after gc has counted the claims.
func (g *guard) busyPack(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.packs[id] > 0
}

// busyImage is busyPack for an image file. A file that was opened for writing since gc began stays
// busy until gc ends, even if it was closed: gc may have counted its claims before.
func (g *guard) busyImage(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.images[id] > 0 || g.opened[id]
}

// isWritten reports whether an image file is being written. A rebuild skips such a file.
func (g *guard) isWritten(image uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.images[image] > 0
}

// claims is the set of chunks that one writer relies on, from add to release. Its mu is taken
// before that of the guard.
type claims struct {
	g    *guard
	mu   sync.Mutex
	held map[uint64]bool
}

func (g *guard) newClaims() *claims { return &claims{g: g, held: map[uint64]bool{}} }

// add protects a chunk. Call it before looking into the index: from then on gc does not remove the
// chunk, and what gc removed before is no longer in the index.
func (c *claims) add(d agentbox.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[shortDigest(d)] {
		return
	}
	c.held[shortDigest(d)] = true
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	count(c.g.chunks, shortDigest(d), 1)
}

// release ends the protection of all chunks, at the end of gc if one runs.
func (c *claims) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	c.held = map[uint64]bool{}
	c.g.afterGC(func() {
		for h := range held {
			count(c.g.chunks, h, -1)
		}
	})
}
