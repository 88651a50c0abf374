package cachestore

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// guard protects from gc what is in use: chunks that a writer found here and counts on, manifests
// that are open, files that are being written. What is released while gc runs stays guarded until
// gc ends, because gc may have looked at it already.
//
// All are reference counts. mu is the last lock that is taken;
// dropMeta and unclaim hold it during a write to the index.
type guard struct {
	mu sync.Mutex
	// chunks are counted by their short digests, see short.
	chunks    map[uint64]int
	manifests map[agentbox.Digest]int
	images    map[uint64]int  // image files that are being written
	packs     map[uint64]int  // packs with pieces that are not claimed yet
	touched   map[uint64]bool // image files that were opened for writing since gc began
	// collecting says that a gc runs. It is atomic because the index asks for it through
	// space.room, also while mu is held.
	collecting atomic.Bool
	later      []func() // releases that wait for the end of gc; called with mu held
}

func (g *guard) init() {
	g.chunks, g.manifests = map[uint64]int{}, map[agentbox.Digest]int{}
	g.images, g.packs, g.touched = map[uint64]int{}, map[uint64]int{}, map[uint64]bool{}
}

// begin and end bracket a gc. There is one at a time (Store.gcMu).
func (g *guard) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.touched)
	g.collecting.Store(true)
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collecting.Store(false)
	for _, giveBack := range g.later {
		giveBack()
	}
	g.later = nil
}

// shortDigest is enough of a digest to tell chunks apart where a mistake only keeps garbage.
func shortDigest(d agentbox.Digest) uint64 { return binary.BigEndian.Uint64(d[:]) }

// count changes a count, and drops it from the map at zero.
func count[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// giveBack calls do now, or when the running gc has ended. do is called with mu held.
func (g *guard) giveBack(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.collecting.Load() {
		g.later = append(g.later, do)
		return
	}
	do()
}

// hold keeps a manifest and its chunks until release is called, which any goroutine may do any
// number of times. The manifest need not be here yet.
func (g *guard) hold(d agentbox.Digest) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.manifests, d, 1)
	return sync.OnceFunc(func() { g.giveBack(func() { count(g.manifests, d, -1) }) })
}

// write keeps an image file from being punched until release is called.
func (g *guard) write(image uint64) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.images, image, 1)
	g.touched[image] = true
	return sync.OnceFunc(func() { g.giveBack(func() { count(g.images, image, -1) }) })
}

// fill keeps a pack from being removed or moved until filled was called for each fill.
func (g *guard) fill(pack uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(g.packs, pack, 1)
}

func (g *guard) filled(pack uint64, times int) {
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
	return func() { g.giveBack(func() { countAll(-1) }) }
}

// isHeld reports whether somebody has a manifest open.
func (g *guard) isHeld(d agentbox.Digest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.manifests[d] > 0
}

// busyPack reports whether claims on a pack may come that were not there when gc began: pieces that
// were appended and not flushed.
func (g *guard) busyPack(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.packs[id] > 0
}

// busyImage is busyPack for an image file. One that was opened for writing since gc began stays
// busy until its end, even when it was closed: gc may have counted its claims before.
func (g *guard) busyImage(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.images[id] > 0 || g.touched[id]
}

// isWritten reports whether an image file is being written now; a rebuild leaves it to its writer.
func (g *guard) isWritten(image uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.images[image] > 0
}

// claims is a set of chunks that one writer counts on, from add to release. mu is taken before that
// of the guard.
type claims struct {
	g    *guard
	mu   sync.Mutex
	held map[uint64]bool
}

func (g *guard) newClaims() *claims { return &claims{g: g, held: map[uint64]bool{}} }

// add guards a chunk. It comes before the look into the index: from then on gc lets the chunk be,
// and what it has removed before is gone from the index too.
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

// release gives all of them back, at the end of gc if one runs.
func (c *claims) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	c.held = map[uint64]bool{}
	c.g.giveBack(func() {
		for h := range held {
			count(c.g.chunks, h, -1)
		}
	})
}
