// Package catalogue says what every member of the team has and does: images, setup results,
// kernels, templates, tasks, boxes and claims. It judges nobody: the reader, who knows the roles of
// a record's owner, decides whether to use it. And it moves no bytes of what it lists.
//
// Each peer owns one catalogue: a bounded set of records with a signed Head (a sequence number and
// the digest of the set). Only its owner changes it. Gossip announces heads. A peer that sees a
// newer one fetches the difference from the owner, or from anybody who has it, and accepts it when
// the resulting set has the digest that the owner signed. So the catalogue of a sleeping peer stays
// readable, lookups are answered from memory, and no two clocks have to agree. A reader never goes
// back to a lower sequence number, and an owner that lost its own number skips those that others
// have seen.
//
// A Store has all catalogues of one machine's team. agentbox/team changes our own (Update), looks
// others' up (Lookup, Records) and takes claims; mesh/exchange asks for Holders; mesh.Mesh opens
// it, passes on what gossip says (ObserveSequence) and has it exchange heads with peers that come
// (Exchange).
//
// A claim is a record by which a peer says that it is about to make something, so that only one
// machine of the team does. It ends when its time to live has passed since its reader saw it, by
// the reader's own monotonic clock, and at the latest after MaxClaimHold, whatever its owner says.
// Ties go to the lower PeerID.
//
// On disk a catalogue is a file, PEERID.json, with the Delta that makes all of it,
// as the service sends it. Our own is synced before it is announced, so that no number is used
// twice; the others' can be fetched again.
//
// Locks: Store.editing is held during a change of our own catalogue, with its write to disk. It is
// taken before mu, which guards everything else and is never held during input, output or a call of
// Config's.
package catalogue
