// Package catalogue says what every member of the team has and does: images, results of setup,
// kernels, templates, tasks and claims.
//
// Each peer owns one catalogue: a bounded set of records with a signed Head (a sequence number and
// the digest of the set). Only its owner changes it. Gossip announces heads; whoever sees a newer
// one
// fetches the difference from its owner, or from anybody who has it, and believes it when the set
// then has the digest that the owner signed. So the catalogue of a peer that sleeps stays readable,
// lookups are answered from memory, and no two clocks have to agree. A reader never goes back to a
// lower sequence number, and an owner that lost its own skips the numbers that others have seen.
//
// A claim is a record by which a peer says that it is about to make something, so that one machine
// per team does. It ends when its reader has seen it for its time to live, by the reader's own
// monotonic clock, and at the latest after MaxHold whatever its owner says. Ties go to the lower
// PeerID.
//
// What it will not do: it judges nobody. Whether a record is to be used is for the reader, who
// knows
// the roles of its owner; and it moves no bytes of what it lists.
package catalogue
