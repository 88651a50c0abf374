// Package catalogue says what every member of the team has and does: images, results of setup,
// kernels, templates, tasks, boxes and claims. It judges nobody: whether a record is to be used is
// for the reader, who knows the roles of its owner. And it moves no bytes of what it lists.
//
// Each peer owns one catalogue: a bounded set of records with a signed Head (a sequence number and
// the digest of the set). Only its owner changes it. Gossip announces heads; a peer that sees a
// newer one fetches the difference from its owner, or from anybody who has it, and believes it when
// the set then has the digest that the owner signed. So the catalogue of a peer that sleeps stays
// readable, lookups are answered from memory, and no two clocks have to agree. A reader never goes
// back to a lower sequence number, and an owner that lost its own skips the numbers that others
// have seen.
//
// A Store has all catalogues of one machine's team. agentbox/team changes our own (Update), looks
// others' up (Lookup, Of) and takes claims; mesh/exchange asks for Holders; mesh.Mesh opens it,
// tells it what gossip says (Saw) and has it exchange heads with peers that come (Exchange).
//
// A claim is a record by which a peer says that it is about to make something, so that one machine
// per team does. It ends when its reader has seen it for its time to live, by the reader's own
// monotonic clock, and at the latest after MaxHold whatever its owner says. Ties go to the lower
// PeerID.
//
// On disk a catalogue is a file, PEERID.json, with the Delta that makes all of it;
// docs/internals/formats.md has it, and the messages of the service. Our own is synced before it is
// announced, so that no number is given twice; the others' can be fetched again.
//
// Locks: Store.editing is held through a change of our own catalogue, with its write to disk, and
// is taken before mu, which guards everything else and is held for no input, output or call of
// Config's.
package catalogue
