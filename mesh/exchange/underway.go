package exchange

import (
	"bytes"
	"slices"

	"agentbox/agentbox"
)

// Movement is a blob of which pieces move just now, in one direction: one that is passed on while
// it arrives is two Movements. It is a copy, for the caller to keep.
type Movement struct {
	Manifest agentbox.Digest
	// Getting: it comes here; else it is sent.
	Getting bool
	Peers   []PeerID // those it comes from, or those that get it, in order
	Here    int      // pieces that are here
	Pieces  int      // 0: nobody has said how many yet
}

// Moving lists what is being received and sent now, sorted by manifest, receiving before sending.
// It is for people: nothing depends on it. A waiting Fetch counts as receiving, with no peers, so
// that a stalled transfer shows.
func (n *Node) Moving() []Movement {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Movement
	for _, b := range n.blobs {
		got, sent := b.activeTransfers()
		if len(got.Peers) > 0 || b.transfer != nil && len(b.transfer.calls) > 0 {
			out = append(out, got)
		}
		if len(sent.Peers) > 0 {
			out = append(out, sent)
		}
	}
	slices.SortStableFunc(out, func(a, b Movement) int { return bytes.Compare(a.Manifest[:], b.Manifest[:]) })
	return out
}

// activeTransfers returns what of a blob moves in either direction: from whom a piece is arriving,
// and to whom one is being sent. Peers that are merely connected are in neither. The caller holds
// the Node's mu.
func (b *shared) activeTransfers() (got, sent Movement) {
	got = Movement{Manifest: b.digest, Getting: true}
	if b.known {
		got.Pieces = len(b.m.Chunks)
		for i := range b.m.Chunks {
			if b.bits.has(i) {
				got.Here++
			}
		}
	}
	sent = got
	sent.Getting = false
	for s := range b.sessions {
		if len(s.incoming) > 0 {
			got.Peers = append(got.Peers, s.peer)
		}
		if len(s.out) > 0 {
			sent.Peers = append(sent.Peers, s.peer)
		}
	}
	for _, peers := range [][]PeerID{got.Peers, sent.Peers} {
		slices.SortFunc(peers, PeerID.Compare)
	}
	return got, sent
}
