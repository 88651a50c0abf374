// Package artifact keeps the files that a configuration's artifacts: names when a task ends, with a
// statement in the form of in-toto of what they are and where they came from, in a DSSE envelope
// that this host signs. It asks no box and keeps no key: what a box sent comes as an archive, every
// name and byte of which is data, and the caller has the key.
//
// Collect writes the files of an archive that globs mean (Prefixes says what to ask the box for),
// Digests hashes lockfiles of one; NewStatement and Sign make the envelope, Open verifies and reads
// one, Check compares a directory with what a statement says. The daemon calls all of them; to
// verify takes the public key only.
//
// A name is checked once, by validName, when it comes from a box and when it comes from a
// statement: it leads nowhere else, is bounded, and can be shown on a terminal.
//
// The statement is a few fields of JSON that in-toto's own module would make by way of protocol
// buffers; the envelope, where mistakes cost, is go-securesystemslib's. Both forms are in
// docs/internals/formats.md.
package artifact
