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

// GCOptions choose what goes. The zero value removes what is above the quota, or what the disk
// lacks, and the chunks that no manifest needs.
type GCOptions struct {
	// DryRun changes nothing; the report says what would go.
	DryRun bool
	// All evicts everything without a root, not only what is above the quota.
	All bool
	// Drop lists manifests to evict, however young, and their chunks with them; what a root keeps
	// or a caller has open stays all the same. It is for what must go now, as what a revoked member
	// made.
	Drop []agentbox.Digest
	// Need is how many bytes are about to be written, and Kind what they are for; 0 and "" when gc
	// is an end in itself.
	Need int64
	Kind blob.Kind
}

// GCItem is something that goes, and why.
type GCItem struct {
	Kind  string `json:"kind"` // a kind of manifest, name, or chunks
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // for a manifest: what was written for it; chunks it shares may stay
	Why   string `json:"why"`
}

// GCReport is what gc did, or would do.
type GCReport struct {
	Items []GCItem `json:"items"`
	Freed int64    `json:"freed"` // bytes on disk; in a dry run an estimate
	Young int      `json:"young"` // things that stay only because they are new
}

// add adds a line to the report.
func (r *GCReport) add(kind, name string, bytes int64, why string) {
	r.Items = append(r.Items, GCItem{Kind: kind, Name: name, Bytes: bytes, Why: why})
}

// GC removes names that have expired, evicts manifests while a quota is exceeded (those used once
// or never first, then by the time of their last use), and gives back the space of chunks that no
// manifest needs. Roots, what is open, and what is younger than the grace period stays. Readers and
// writers may go on meanwhile; a second GC waits for the first. The report is also given with an
// error, and says what was done until then. Nothing has to be undone after one: each step leaves a
// store that is right.
func (s *Store) GC(ctx context.Context, o GCOptions) (GCReport, error) {
	s.gcMu.Lock()
	defer s.gcMu.Unlock()
	s.guard.begin()
	defer s.guard.end()
	if !o.DryRun && s.space.room() != nil {
		s.ballast.drop()
	}
	g := &collection{s: s, o: o, grace: s.cfg.Grace, report: GCReport{Items: []GCItem{}}, dropped: map[uint64]struct{}{}}
	if g.grace < 0 {
		g.grace = 0
	}
	err := g.run(ctx)
	if !o.DryRun {
		s.ballast.inflate()
	}
	return g.report, err
}

// Forget takes back the name of a key, by whatever producer, and removes at once what nothing else
// keeps of what it stood for, grace or not. A name that is damaged goes, too; what it stood for is
// left to a later gc. No such name is no error.
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
		return nil // somebody else did
	}
	if err == nil && readErr == nil {
		_, err = s.GC(ctx, GCOptions{Drop: []agentbox.Digest{n.Manifest}})
	}
	return err
}

// collection is one gc. It has four steps: names expire, manifests are evicted, the chunks of those
// that stay are marked, and the rest is swept.
type collection struct {
	s *Store
	o GCOptions
	// grace is that of the configuration, not below zero.
	grace  time.Duration
	report GCReport
	// live and dropped hold the short digests of chunks that are needed, and of what was dropped by
	// name, for which there is no grace. Eight bytes each instead of 32: a store has millions, and
	// a collision only keeps garbage.
	live    map[uint64]struct{}
	dropped map[uint64]struct{}
	// kept are the manifests that roots keep, owners all that stay, once evict is done.
	kept   map[agentbox.Digest]bool
	owners map[agentbox.Digest]index.Meta
	// unread is why a manifest that a root keeps cannot be read. Nobody knows then which chunks it
	// needs, so none goes but those that were asked for by name (Drop).
	unread error
}

func (g *collection) run(ctx context.Context) error {
	err := g.s.names.expire(g.o.DryRun, g.grace, func(n blob.Name) {
		g.report.add("name", n.Namespace+"/"+n.Key, 0, "expired "+n.Expires.Format(time.RFC3339))
	})
	if err != nil {
		return err
	}
	roots, err := g.s.roots()
	if err != nil {
		return err
	}
	if !g.o.DryRun {
		if err := g.s.mendIndex(ctx, roots.all()); err != nil {
			return err
		}
	}
	if err := g.keep(ctx, roots); err != nil {
		return err
	}
	before := g.s.space.usedBytes()
	if err := g.evict(ctx, roots); err != nil {
		return err
	}
	if err := g.mark(ctx); err != nil {
		return err
	}
	if err := g.sweep(ctx); err != nil {
		return err
	}
	if !g.o.DryRun {
		g.report.Freed = before - g.s.space.usedBytes()
	}
	if len(g.o.Drop) > 0 {
		return nil // what was asked for is gone
	}
	return g.unread
}

// candidate is a manifest that may be evicted.
type candidate struct {
	digest agentbox.Digest
	meta   index.Meta
}

// evict takes manifests out of the index until everything fits. It decides on what it saw when it
// began, and asks again for each manifest when it drops it (drop).
func (g *collection) evict(ctx context.Context, roots roots) error {
	g.owners = map[agentbox.Digest]index.Meta{}
	var may []candidate
	err := g.s.index.EachMeta(ctx, func(d agentbox.Digest, m index.Meta) error {
		g.owners[d] = m
		switch {
		case roots.keeps(d), g.s.guard.isHeld(d):
		case slices.Contains(g.o.Drop, d):
			may = append(may, candidate{d, m})
		case g.s.cfg.Now().Sub(m.Created) < g.grace:
			g.report.Young++
		default:
			may = append(may, candidate{d, m})
		}
		return nil
	})
	if err != nil {
		return err
	}
	sort.Slice(may, func(i, j int) bool { return cheaper(may[i].meta, may[j].meta) })
	plan := g.plan()
	for _, c := range may {
		why := plan.why(c.meta)
		if slices.Contains(g.o.Drop, c.digest) {
			why = "it was removed"
			if err := g.noGrace(ctx, c.digest); err != nil {
				return err
			}
		} else if g.unread != nil {
			continue // its chunks would stay
		}
		if why == "" {
			continue
		}
		gone, err := g.drop(c)
		if err != nil {
			return err
		}
		if gone {
			plan.freed(c.meta)
			g.report.add(string(c.meta.Kind), c.digest.String(), c.meta.Charged, why)
		}
	}
	return nil
}

// noGrace lets the chunks of a manifest go with it, unless others need them. One that cannot be
// read leaves them to a later gc.
func (g *collection) noGrace(ctx context.Context, d agentbox.Digest) error {
	m, err := g.s.Manifest(ctx, d)
	if err != nil && !mayFetch(err) {
		return err
	}
	g.dropped[shortDigest(d)] = struct{}{}
	for _, c := range m.Chunks {
		g.dropped[shortDigest(c.Digest)] = struct{}{}
	}
	return nil
}

// cheaper reports what to evict first: what was used once or never, so that one pass over
// everything cannot push out what is used again and again (2Q, Johnson and Shasha, VLDB 1994), then
// what was not used for longest.
func cheaper(a, b index.Meta) bool {
	if once, other := a.Uses < 2, b.Uses < 2; once != other {
		return once
	}
	return a.Used.Before(b.Used)
}

// drop takes a manifest out of the index, unless somebody has opened or named it since.
func (g *collection) drop(c candidate) (bool, error) {
	if g.o.DryRun {
		delete(g.owners, c.digest)
		return true, nil
	}
	g.s.names.mu.Lock()
	defer g.s.names.mu.Unlock()
	g.s.pins.mu.Lock()
	defer g.s.pins.mu.Unlock()
	roots, err := g.s.roots()
	if err != nil {
		return false, err
	}
	g.s.metaMu.Lock()
	defer g.s.metaMu.Unlock()
	if roots.keeps(c.digest) {
		return false, nil
	}
	// What was written for it since evict looked is charged, too.
	now, _, err := g.s.index.Meta(c.digest)
	if err != nil {
		return false, err
	}
	if gone, err := g.dropMeta(c.digest); err != nil || !gone {
		return false, err
	}
	g.s.space.uncharge(now.Kind, now.Charged)
	g.s.checked.Delete(c.digest)
	delete(g.owners, c.digest)
	return true, nil
}

// dropMeta has the guard's lock from the question to the deed: a caller that holds the manifest
// after that finds it gone.
func (g *collection) dropMeta(d agentbox.Digest) (bool, error) {
	g.s.guard.mu.Lock()
	defer g.s.guard.mu.Unlock()
	// Opened since evict looked.
	if g.s.guard.manifests[d] > 0 {
		return false, nil
	}
	var b index.Batch
	b.DropMeta(d)
	return true, g.s.index.Apply(&b)
}

// plan is how much has to go.
type plan struct {
	all   bool
	total int64 // bytes too many, of all kinds
	kinds map[blob.Kind]int64
}

// plan finds out how much has to go: the quota of everything, the free space of the disk, or the
// quota of a kind, each with what is about to be written. When the disk does not say what is free,
// only the quotas count.
func (g *collection) plan() *plan {
	free, err := g.s.fs.Free(g.s.cfg.Dir)
	sp := &g.s.space
	sp.mu.Lock()
	defer sp.mu.Unlock()
	p := &plan{all: g.o.All, kinds: map[blob.Kind]int64{}}
	if sp.quota.Total > 0 {
		p.total = sp.used + sp.reserved + g.o.Need - sp.quota.Total
	}
	if err == nil {
		p.total = max(p.total, g.s.cfg.KeepFree+sp.reserved+g.o.Need-free)
	}
	for kind, limit := range sp.quota.Kinds {
		if limit <= 0 {
			continue
		}
		p.kinds[kind] = sp.kinds[kind] - limit
		if kind == g.o.Kind {
			p.kinds[kind] += g.o.Need
		}
	}
	return p
}

// why tells why a manifest goes, "" when it stays.
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

// freed counts what was charged to a manifest as gained. Chunks that it shares stay, so one gc may
// free less than was needed; the write that asked for it then fails, and the next gc knows better.
func (p *plan) freed(m index.Meta) {
	p.total -= m.Charged
	p.kinds[m.Kind] -= m.Charged
}
