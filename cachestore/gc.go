package cachestore

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// GCOptions select what GC removes. With the zero value, it removes enough to satisfy the quota and
// the free space of the disk, and all chunks that no manifest needs.
type GCOptions struct {
	// DryRun changes nothing; the report says what would be removed.
	DryRun bool
	// All evicts everything without a root, not only what exceeds the quota.
	All bool
	// Drop lists manifests to evict with their chunks, even if they are new. Manifests with a root
	// and open ones stay nevertheless. It is for what must be removed at once, for example what a
	// revoked member made.
	Drop []agentbox.Digest
	// Need is the number of bytes about to be written, and Kind their kind. They are 0 and "" when
	// gc is not making room for a write.
	Need int64
	Kind blob.Kind
}

// GCItem is something that was removed, and why.
type GCItem struct {
	Kind   string `json:"kind"` // a kind of manifest, name, or chunks
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"` // for a manifest: what was written for it; chunks it shares may stay
	Reason string `json:"reason"`
}

// GCReport is what gc did, or would do.
type GCReport struct {
	Items  []GCItem `json:"items"`
	Freed  int64    `json:"freed"`  // bytes on disk; in a dry run an estimate
	Recent int      `json:"recent"` // things that stay only because they are new
}

func (g *GCReport) add(kind, name string, bytes int64, why string) {
	g.Items = append(g.Items, GCItem{Kind: kind, Name: name, Bytes: bytes, Reason: why})
}

// GC removes expired names, evicts manifests while a quota is exceeded, and frees the space of
// chunks that no manifest needs. It evicts manifests that were used at most once first, and then
// the least recently used. Roots, open manifests, and everything younger than the grace period
// stay.
//
// Readers and writers may continue meanwhile; a second GC waits for the first. With an error, the
// report says what was done so far. The caller need not undo anything, because each step leaves a
// consistent store.
func (s *Store) GC(ctx context.Context, o GCOptions) (GCReport, error) {
	s.gcMu.Lock()
	defer s.gcMu.Unlock()
	s.guard.begin()
	defer s.guard.end()
	if !o.DryRun && s.space.room() != nil {
		s.reserveFile.drop()
	}
	g := &collection{s: s, o: o, grace: s.cfg.Grace, report: GCReport{Items: []GCItem{}}, dropped: map[uint64]struct{}{}}
	if g.grace < 0 {
		g.grace = 0
	}
	err := g.run(ctx)
	if !o.DryRun {
		s.reserveFile.allocate()
	}
	return g.report, err
}

// Forget removes the name of a key, whoever produced it, and at once everything that only this name
// kept, even if it is new. It removes a damaged name too, but leaves its manifest to a later gc. It
// is no error if there is no such name.
func (s *Store) Forget(ctx context.Context, namespace, key string) error {
	if err := blob.CheckKey(namespace, key); err != nil {
		return err
	}
	n, readErr := s.names.read(nameFile(namespace, key))
	if readErr != nil && agentbox.CodeOf(readErr) != agentbox.Corrupt {
		if agentbox.CodeOf(readErr) == agentbox.NotFound {
			return nil
		}
		return readErr
	}
	err := s.Unpublish(namespace, key)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil // removed concurrently
	}
	if err == nil && readErr == nil {
		_, err = s.GC(ctx, GCOptions{Drop: []agentbox.Digest{n.Manifest}})
	}
	return err
}

// collection is one gc. It has four steps: remove expired names, evict manifests, mark the chunks
// of the others, and sweep the rest.
type collection struct {
	s *Store
	o GCOptions
	// grace is that of the configuration, not below zero.
	grace  time.Duration
	report GCReport
	// needed and dropped hold short digests: of needed chunks, and of those of dropped manifests,
	// which have no grace period. A short digest takes 8 bytes instead of 32, which matters for
	// millions of chunks; a collision only keeps garbage.
	needed  map[uint64]struct{}
	dropped map[uint64]struct{}
	// kept are the manifests with a root, owners all manifests that stay, once evict has run.
	kept   map[agentbox.Digest]bool
	owners map[agentbox.Digest]index.Meta
	// unreadable is set when a manifest with a root cannot be read. Its chunks are then unknown, so
	// gc removes only chunks of manifests in Drop.
	unreadable error
}

func (col *collection) run(ctx context.Context) error {
	err := col.s.names.expire(col.o.DryRun, col.grace, func(n blob.Name) {
		col.report.add("name", n.Namespace+"/"+n.Key, 0, "expired "+n.Expires.Format(time.RFC3339))
	})
	if err != nil {
		return err
	}
	roots, err := col.s.roots()
	if err != nil {
		return err
	}
	if !col.o.DryRun {
		if err := col.s.completeIndex(ctx, roots.all()); err != nil {
			return err
		}
	}
	if err := col.markRoots(ctx, roots); err != nil {
		return err
	}
	before := col.s.space.usedBytes()
	if err := col.evict(ctx, roots); err != nil {
		return err
	}
	if err := col.mark(ctx); err != nil {
		return err
	}
	if err := col.sweep(ctx); err != nil {
		return err
	}
	if !col.o.DryRun {
		col.report.Freed = before - col.s.space.usedBytes()
	}
	if len(col.o.Drop) > 0 {
		return nil // everything in Drop is removed
	}
	return col.unreadable
}

// candidate is a manifest that may be evicted.
type candidate struct {
	digest agentbox.Digest
	meta   index.Meta
}

// evict removes manifests from the index until everything fits. It decides by what it saw at its
// start, and drop checks each manifest again.
func (col *collection) evict(ctx context.Context, roots roots) error {
	col.owners = map[agentbox.Digest]index.Meta{}
	var may []candidate
	err := col.s.index.EachMeta(ctx, func(d agentbox.Digest, m index.Meta) error {
		col.owners[d] = m
		switch {
		case roots.keeps(d), col.s.guard.isHeld(d):
		case slices.Contains(col.o.Drop, d):
			may = append(may, candidate{d, m})
		case col.s.cfg.Now().Sub(m.Created) < col.grace:
			col.report.Recent++
		default:
			may = append(may, candidate{d, m})
		}
		return nil
	})
	if err != nil {
		return err
	}
	sort.Slice(may, func(i, j int) bool { return evictsBefore(may[i].meta, may[j].meta) })
	plan := col.plan()
	for _, c := range may {
		why := plan.why(c.meta)
		if slices.Contains(col.o.Drop, c.digest) {
			why = "it was removed"
			if err := col.dropChunks(ctx, c.digest); err != nil {
				return err
			}
		} else if col.unreadable != nil {
			continue // its chunks would stay
		}
		if why == "" {
			continue
		}
		gone, err := col.drop(c)
		if err != nil {
			return err
		}
		if gone {
			plan.freed(c.meta)
			col.report.add(string(c.meta.Kind), c.digest.String(), c.meta.Charged, why)
		}
	}
	return nil
}

// dropChunks exempts the chunks of a dropped manifest from the grace period. If the manifest cannot
// be read, its chunks are left to a later gc.
func (col *collection) dropChunks(ctx context.Context, d agentbox.Digest) error {
	m, err := col.s.Manifest(ctx, d)
	if err != nil && !mayFetch(err) {
		return err
	}
	col.dropped[shortDigest(d)] = struct{}{}
	for _, c := range m.Chunks {
		col.dropped[shortDigest(c.Digest)] = struct{}{}
	}
	return nil
}

// evictsBefore reports whether to evict a before b. Manifests that were used at most once come
// first, so that a single pass over everything cannot evict what is used again and again (2Q,
// Johnson and Shasha, VLDB 1994). Then come the least recently used.
func evictsBefore(a, b index.Meta) bool {
	if once, other := a.Uses < 2, b.Uses < 2; once != other {
		return once
	}
	return a.Used.Before(b.Used)
}

// drop removes a manifest from the index, unless it was opened or named since evict looked.
func (col *collection) drop(c candidate) (bool, error) {
	if col.o.DryRun {
		delete(col.owners, c.digest)
		return true, nil
	}
	col.s.names.mu.Lock()
	defer col.s.names.mu.Unlock()
	col.s.pins.mu.Lock()
	defer col.s.pins.mu.Unlock()
	roots, err := col.s.roots()
	if err != nil {
		return false, err
	}
	col.s.metaMu.Lock()
	defer col.s.metaMu.Unlock()
	if roots.keeps(c.digest) {
		return false, nil
	}
	// Includes what was charged since evict looked.
	now, _, err := col.s.index.Meta(c.digest)
	if err != nil {
		return false, err
	}
	if gone, err := col.dropMeta(c.digest); err != nil || !gone {
		return false, err
	}
	col.s.space.uncharge(now.Kind, now.Charged)
	col.s.checked.Delete(c.digest)
	delete(col.owners, c.digest)
	return true, nil
}

// dropMeta holds the guard's lock from its check until the metadata is removed, so that a caller
// that holds the manifest afterwards finds it gone.
func (col *collection) dropMeta(d agentbox.Digest) (bool, error) {
	col.s.guard.mu.Lock()
	defer col.s.guard.mu.Unlock()
	// Opened since evict looked.
	if col.s.guard.manifests[d] > 0 {
		return false, nil
	}
	var b index.Batch
	b.DropMeta(d)
	return true, col.s.index.Apply(&b)
}

// plan is how much has to be removed.
type plan struct {
	all   bool
	total int64 // bytes too many, of all kinds
	kinds map[blob.Kind]int64
}

// plan computes how much has to be removed to satisfy the total quota, the free space of the disk
// and the quota of each kind, each with the bytes about to be written. If the free space is
// unknown, only the quotas count.
func (col *collection) plan() *plan {
	free, err := col.s.fs.Free(col.s.cfg.Dir)
	sp := &col.s.space
	sp.mu.Lock()
	defer sp.mu.Unlock()
	p := &plan{all: col.o.All, kinds: map[blob.Kind]int64{}}
	if sp.quota.Total > 0 {
		p.total = sp.used + sp.reserved + col.o.Need - sp.quota.Total
	}
	if err == nil {
		p.total = max(p.total, col.s.cfg.KeepFree+sp.reserved+col.o.Need-free)
	}
	for kind, limit := range sp.quota.Kinds {
		if limit <= 0 {
			continue
		}
		p.kinds[kind] = sp.kinds[kind] - limit
		if kind == col.o.Kind {
			p.kinds[kind] += col.o.Need
		}
	}
	return p
}

// why returns the reason to evict a manifest, or "" to keep it.
func (p *plan) why(m index.Meta) string {
	used := "last used " + m.Used.Format(time.RFC3339) + ", " + agentbox.Plural(m.Uses, "time")
	switch {
	case p.kinds[m.Kind] > 0:
		return fmt.Sprintf("the quota for %s is exceeded; %s", m.Kind, used)
	case p.total > 0:
		return "the store or its disk is too full; " + used
	case p.all:
		return "no name, pin or box keeps it; " + used
	}
	return ""
}

// freed counts the bytes charged to a manifest as freed. Its shared chunks stay, so one gc may free
// less than was needed. Then the write that requested it fails, and the next gc removes more.
func (p *plan) freed(m index.Meta) {
	p.total -= m.Charged
	p.kinds[m.Kind] -= m.Charged
}
