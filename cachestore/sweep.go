package cachestore

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// markRoots marks the chunks of manifests with a root. If one of these cannot be read, gc frees
// nothing else (unreadable), because its chunks are needed once it is repaired.
func (col *collection) markRoots(ctx context.Context, roots roots) error {
	col.needed, col.kept = map[uint64]struct{}{}, roots.all()
	for d := range col.kept {
		err := col.markNeeded(ctx, d)
		if err != nil && !mayFetch(err) {
			return err
		}
		if err != nil {
			col.unreadable = agentbox.Classify(agentbox.Corrupt, "%s cannot be read, so gc does not know which chunks it needs: %w", roots.describe(d), err).
				WithHint("agentbox cache verify repairs it where another copy can be found; without its name or pin its chunks go, too")
		}
	}
	return nil
}

// mark marks the chunks of all other manifests that stay. A manifest that cannot be read is
// useless, and its chunks are removed. For any other error of the disk, gc stops here, before it
// removes anything.
func (col *collection) mark(ctx context.Context) error {
	for d := range col.owners {
		if col.kept[d] {
			continue
		}
		if err := col.markNeeded(ctx, d); err != nil {
			if !mayFetch(err) {
				return err
			}
			col.s.log.Warn("store: gc cannot read a manifest", "manifest", d.Short(), "error", err)
		}
	}
	return nil
}

func (col *collection) markNeeded(ctx context.Context, d agentbox.Digest) error {
	col.needed[shortDigest(d)] = struct{}{}
	m, err := col.s.Manifest(ctx, d)
	for _, c := range m.Chunks {
		col.needed[shortDigest(c.Digest)] = struct{}{}
	}
	return err
}

// claimOn is a claim of the index: a chunk and its location.
type claimOn struct {
	digest agentbox.Digest
	place  index.Location
}

// sweep removes the claims on chunks that no manifest needs, and then frees the space without
// claims. In this order, a reader that finds a claim also finds the bytes, or finds that the claim
// is gone.
//
// A chunk that no manifest needs stays for the grace period after its claim was made, because its
// manifest may be about to be stored.
func (col *collection) sweep(ctx context.Context) error {
	var list []claimOn
	var bytes int64
	err := col.s.index.EachChunk(ctx, func(d agentbox.Digest, p index.Location) error {
		if _, ok := col.needed[shortDigest(d)]; ok {
			return nil
		}
		_, over := col.dropped[shortDigest(d)]
		if !over && col.unreadable != nil {
			return nil
		}
		if !over && col.s.cfg.Now().Sub(time.Unix(int64(p.Seen), 0)) < col.grace {
			col.report.Recent++
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
		col.report.add("chunks", agentbox.Plural(len(list), "chunk"), bytes, "no manifest needs them")
	}
	if col.o.DryRun {
		col.report.Freed = bytes
		return nil
	}
	// Damage to chunks that nothing needs is never repaired, and would be reported forever.
	for _, dmg := range col.s.Damaged() {
		if _, ok := col.needed[shortDigest(dmg.Digest)]; !ok {
			col.s.quarantine.forget(dmg.Digest, "not needed any more")
		}
	}
	removed := len(list) > 0
	for len(list) > 0 {
		// In portions, because the guard and with it every writer is blocked meanwhile.
		n := min(len(list), 1000)
		if err := col.unclaim(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	if removed {
		if err := col.dropFingerprints(ctx); err != nil {
			return err
		}
	}
	return col.reclaim(ctx, removed)
}

// unclaim removes claims, except those on chunks that a writer has begun to rely on since they were
// selected. It holds the guard's lock from the check until the write; see writer.has.
func (col *collection) unclaim(list []claimOn) error {
	col.s.guard.mu.Lock()
	defer col.s.guard.mu.Unlock()
	var b index.Batch
	for _, x := range list {
		if col.s.guard.chunks[shortDigest(x.digest)] == 0 && col.s.guard.manifests[x.digest] == 0 {
			b.DropChunk(x.digest)
		}
	}
	return col.s.index.Apply(&b)
}
