package exchange

import (
	"context"
	"maps"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// MissingChunks lists the chunks of a blob that are neither here nor with any reachable holder, in
// order; m is its manifest. If a connected holder has not said what it has when ctx ends, anything
// may still come: sure is false then, and the list is only what nobody has offered. It fetches
// nothing. The sessions that it opens stay until they are idle, as a Fetch of the same often
// follows.
func (n *Node) MissingChunks(ctx context.Context, manifest agentbox.Digest, m blob.Manifest) (missing []int, sure bool, err error) {
	union, err := n.cfg.Store.Bitmap(m)
	if err != nil {
		return nil, false, err
	}
	n.dialHolders(ctx, manifest)
	sure = true
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(manifest)
	defer n.removeUnused(b)
	for s := range b.sessions {
		if s.theirs == nil || s.count != len(m.Chunks) {
			sure = false
			continue
		}
		for i := range union {
			union[i] |= s.theirs[i]
		}
	}
	for i := range m.Chunks {
		if !bitmap(union).has(i) {
			missing = append(missing, i)
		}
	}
	return missing, sure, nil
}

// dialHolders opens sessions with all holders without one, and waits until each has said what it
// has, is gone, or ctx ends. It skips those that cannot be reached, without an error: that they are
// away is an answer, too.
func (n *Node) dialHolders(ctx context.Context, manifest agentbox.Digest) {
	var dials sync.WaitGroup
	for _, p := range n.cfg.Holders.Holders(manifest) {
		if p == n.cfg.Self || n.HasSession(p, manifest) {
			continue
		}
		dials.Go(func() {
			if _, err := n.open(ctx, p, manifest); err != nil {
				n.cfg.Log.Debug("a holder cannot be reached", "peer", p.Short(), "error", err)
			}
		})
	}
	dials.Wait()
	n.mu.Lock()
	var all []*session
	if b := n.blobs[manifest]; b != nil {
		all = slices.Collect(maps.Keys(b.sessions))
	}
	n.mu.Unlock()
	for _, s := range all {
		select {
		case <-s.announced:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
}

// HasSession reports whether there is a session with a peer about a blob.
func (n *Node) HasSession(p PeerID, manifest agentbox.Digest) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blobs[manifest]
	return b != nil && b.sessionWith(p) != nil
}

// sessionWith returns the session with a peer, nil for none. The caller holds the Node's mu.
func (b *blobState) sessionWith(p PeerID) *session {
	for s := range b.sessions {
		if s.peer == p {
			return s
		}
	}
	return nil
}
