package exchange

import (
	"context"
	"maps"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Lacking lists the chunks of a blob, m being that of manifest, that are neither here nor with any
// holder that can be reached, in order. Of a holder that is connected and has not said what it has
// when ctx ends, anything may come: sure is false then, and what is listed is only what nobody has
// offered. It fetches nothing. The sessions that it opens stay until they are idle, as a Fetch of
// the same is what often follows.
func (n *Node) Lacking(ctx context.Context, manifest agentbox.Digest, m blob.Manifest) (missing []int, sure bool, err error) {
	union, err := n.cfg.Store.Bits(m)
	if err != nil {
		return nil, false, err
	}
	n.meetHolders(ctx, manifest)
	sure = true
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(manifest)
	defer n.tidy(b)
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

// meetHolders opens sessions with all holders that there is none with, and waits until each has
// said what it has, is gone, or ctx ends. Those that cannot be reached are left out without an
// error: that they are away is an answer, too.
func (n *Node) meetHolders(ctx context.Context, manifest agentbox.Digest) {
	var dials sync.WaitGroup
	for _, p := range n.cfg.Holders.Holders(manifest) {
		if p == n.cfg.Self || n.Meets(p, manifest) {
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
		case <-s.said:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Meets tells whether there is a session with a peer about a blob.
func (n *Node) Meets(p PeerID, manifest agentbox.Digest) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blobs[manifest]
	return b != nil && b.sessionWith(p) != nil
}

// sessionWith is the session with a peer, nil for none. Callers hold the Node's mu.
func (b *shared) sessionWith(p PeerID) *session {
	for s := range b.sessions {
		if s.peer == p {
			return s
		}
	}
	return nil
}
