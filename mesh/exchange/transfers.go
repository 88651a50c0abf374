package exchange

import (
	"bytes"
	"slices"

	"agentbox/agentbox"
)

// TransferStatus is a blob of which pieces move just now, in one direction: one that is passed on
// while it arrives is two Movements. It is a copy, for the caller to keep.
type TransferStatus struct {
	Manifest agentbox.Digest
	// Receiving: it comes here; else it is sent.
	Receiving bool
	Peers     []PeerID // those it comes from, or those that get it, in order
	Present   int      // pieces that are here
	Pieces    int      // 0: nobody has said how many yet
}

// Transfers lists what is being received and sent now, sorted by manifest, receiving before
// sending. It is for people: nothing depends on it. A waiting Fetch counts as receiving, with no
// peers, so that a stalled transfer shows.
func (n *Node) Transfers() []TransferStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []TransferStatus
	for _, b := range n.blobs {
		got, sent := b.activeTransfers()
		if len(got.Peers) > 0 || b.transfer != nil && len(b.transfer.calls) > 0 {
			out = append(out, got)
		}
		if len(sent.Peers) > 0 {
			out = append(out, sent)
		}
	}
	slices.SortStableFunc(out, func(a, b TransferStatus) int { return bytes.Compare(a.Manifest[:], b.Manifest[:]) })
	return out
}

// activeTransfers returns what of a blob moves in either direction: from whom a piece is arriving,
// and to whom one is being sent. Peers that are merely connected are in neither. The caller holds
// the Node's mu.
func (b *blobState) activeTransfers() (got, sent TransferStatus) {
	got = TransferStatus{Manifest: b.digest, Receiving: true}
	if b.known {
		got.Pieces = len(b.m.Chunks)
		for i := range b.m.Chunks {
			if b.bits.has(i) {
				got.Present++
			}
		}
	}
	sent = got
	sent.Receiving = false
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
