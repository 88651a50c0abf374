package cachestore

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// keep finds out what the manifests that names and pins keep need. One that cannot be read is why
// gc frees nothing else (unread): its chunks are needed as soon as it is repaired.
func (g *collection) keep(ctx context.Context, roots roots) error {
	g.live, g.kept = map[uint64]struct{}{}, roots.all()
	for d := range g.kept {
		err := g.need(ctx, d)
		if err != nil && !mayFetch(err) {
			return err
		}
		if err != nil {
			g.unread = agentbox.Errorf(agentbox.Corrupt, "%s cannot be read, so gc does not know which chunks it needs: %w", roots.title(d), err).
				WithHint("agentbox cache verify repairs it where another copy can be found; without its name or pin its chunks go, too")
		}
	}
	return nil
}

// mark finds out what the other manifests that stay need. One that cannot be read is no use to
// anybody, and its chunks go. When the disk fails in another way gc stops here, before anything is
// removed.
func (g *collection) mark(ctx context.Context) error {
	for d := range g.owners {
		if g.kept[d] {
			continue
		}
		if err := g.need(ctx, d); err != nil {
			if !mayFetch(err) {
				return err
			}
			g.s.log.Warn("store: gc cannot read a manifest", "manifest", d.Short(), "error", err)
		}
	}
	return nil
}

// need marks a manifest and its chunks as needed.
func (g *collection) need(ctx context.Context, d agentbox.Digest) error {
	g.live[shortDigest(d)] = struct{}{}
	m, err := g.s.Manifest(ctx, d)
	for _, c := range m.Chunks {
		g.live[shortDigest(c.Digest)] = struct{}{}
	}
	return err
}

// claimOn is a claim of the index: the chunk, and where it lies.
type claimOn struct {
	digest agentbox.Digest
	place  index.Location
}

// sweep takes back the claims of chunks that nobody needs, and then the space of what is not
// claimed. In this order: a reader who finds a claim finds the bytes, or finds that the claim is
// gone.
//
// Chunks that no manifest needs stay for the grace period since they were claimed: their manifest
// may be about to come.
func (g *collection) sweep(ctx context.Context) error {
	var list []claimOn
	var bytes int64
	err := g.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
		if _, ok := g.live[shortDigest(d)]; ok {
			return nil
		}
		_, over := g.dropped[shortDigest(d)]
		if !over && g.unread != nil {
			return nil
		}
		if !over && g.s.cfg.Now().Sub(time.Unix(int64(p.Seen), 0)) < g.grace {
			g.report.Young++
			return nil
		}
		list = append(list, claimOn{d, p})
		bytes += int64(p.Stored)
		return nil
	})
	if err != nil {
		return err
	}
	if len(list) > 0 {
		g.report.add("chunks", agentbox.Plural(len(list), "chunk"), bytes, "no manifest needs them")
	}
	if g.o.DryRun {
		g.report.Freed = bytes
		return nil
	}
	// What nobody needs cannot be repaired by anybody, and would be reported for ever.
	for _, dmg := range g.s.Damaged() {
		if _, ok := g.live[shortDigest(dmg.Digest)]; !ok {
			g.s.quarantine.forget(dmg.Digest, "not needed any more")
		}
	}
	removed := len(list) > 0
	for len(list) > 0 {
		// In portions: the guard is locked meanwhile, and with it every writer.
		n := min(len(list), 1000)
		if err := g.unclaim(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	if removed {
		if err := g.forget(ctx); err != nil {
			return err
		}
	}
	return g.reclaim(ctx, removed)
}

// unclaim takes claims back that nobody has begun to count on since they were judged. The guard's
// lock is held from the question to the deed, see writer.has.
func (g *collection) unclaim(list []claimOn) error {
	g.s.guard.mu.Lock()
	defer g.s.guard.mu.Unlock()
	var b index.Batch
	for _, x := range list {
		if g.s.guard.chunks[shortDigest(x.digest)] == 0 && g.s.guard.manifests[x.digest] == 0 {
			b.DropChunk(x.digest)
		}
	}
	return g.s.index.Apply(&b)
}
