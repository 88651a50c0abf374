// Package exchange hands pieces of blobs from peer to peer: images, setup results, snapshots, each
// from any mix of machines that have some of it. It keeps nothing: bytes come from a Store, and go
// to the caller that began the transfer. It decides about nobody: what is shared is the Store's to
// say, who is a member the network's.
//
// Words. A session is one stream between two peers about one manifest, in which both may ask and
// both may send. A transfer is what gets one blob here, over as many sessions as there are holders
// (at most schedule.MaxPeers). Who asks what of whom is decided by package schedule.
//
// A Node is one machine's part. The daemon makes it on the connections to the team (OverWire), and
// agentbox/layers is its user: Begin and Transfer.Fetch get chunks, Manifest gets a manifest,
// Lacking finds out what nobody has; the Store that it is given is agentbox/layers' view of the
// cachestore.
//
// What is promised:
//
//   - A peer is served what the Store says is shared with it, and nothing else: a request names the
//     manifest and the number of a piece in it. For a manifest that is not shared the answer is the
//     same as for one that does not exist.
//   - Pieces travel as they are stored. The receiver decodes them, never to more bytes than the
//     manifest says, and the transfer's Arrived verifies them; a peer that sent wrong bytes is
//     asked for that piece no more, and after the second time for nothing, for a while (strike).
//   - Nothing a peer sends makes this machine keep more than the frames' limits and what it asked
//     for itself.
//   - A transfer that was cut off is begun again by asking for what is missing: nothing about it is
//     kept here.
//
// Locks and goroutines. Node.mu guards everything that sessions and transfers share, the scheduler
// included; it is held for no read, write, hash or call of the Store's. Each session has a reader
// and a writer, each transfer a planner (run) and a few judges, the Node one uploader. All of them
// end with the ctx of what they belong to, and Close waits for them.
//
// The bytes are in docs/internals/formats.md ("Pieces from peers").
package exchange
