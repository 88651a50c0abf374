// Package exchange transfers pieces of blobs from peer to peer: images, setup results, snapshots,
// each from any mix of machines that have some of it. It keeps nothing: bytes come from a Store,
// and go to the caller that began the transfer. It decides about nobody: the Store says what is
// shared, the network who is a member.
//
// Terms. A session is one stream between two peers about one manifest, in which both may request
// and both may send. A transfer gets one blob to this machine, over sessions with all its holders
// (at most schedule.MaxPeers). Package schedule decides what is requested of whom.
//
// A Node is one machine's part. The daemon makes it on the connections to the team (OverWire), and
// agentbox/layers uses it: Begin and Transfer.Fetch get chunks, Manifest gets a manifest,
// MissingChunks finds out what nobody has. The Store is agentbox/layers' view of the cachestore.
//
// Guarantees:
//
//   - A peer is served what the Store says is shared with it, and nothing else: a request names the
//     manifest and the number of a piece in it. For a manifest that is not shared, the answer is
//     the same as for one that does not exist.
//   - Pieces travel as they are stored. The receiver decodes them, never to more bytes than the
//     manifest says, and the transfer's ChunkHandler verifies them. A peer that sent wrong bytes is
//     not asked for that piece again, and after the second time is banned for a while (strike).
//   - An answer counts only from the peer that was asked.
//   - Nothing a peer sends makes this machine keep more than the frames' limits and what it
//     requested itself.
//   - A transfer that was interrupted is begun again by requesting what is missing: nothing about
//     it is kept here.
//
// Locks and goroutines. Node.mu guards everything that sessions and transfers share, including the
// scheduler; it is never held during a read, write, hash or call of the Store's. Each session has a
// reader and a writer, each transfer a planner (run) and a few verifiers (verifyAll), the Node one
// uploader. All of them end with the ctx of what they belong to, and Close waits for them.
//
// frame.go has the bytes.
package exchange
