// Package artifact keeps the files that a configuration's artifacts: names when a task ends, with a
// signed statement in the form of in-toto, in a DSSE envelope, of what they are and where they came
// from. It asks no box and keeps no key: the caller has the key, and the box's files come as an
// archive of which nothing is trusted.
//
// Collect writes the files of an archive that match globs (Prefixes says what to ask the box for),
// and Digests hashes lockfiles in one. NewStatement and Sign make the envelope, Open verifies and
// reads one, Check compares a directory with a statement. The daemon calls all of them; verifying
// takes only the public key.
//
// validName checks every name, whether it comes from a box or from a statement: it stays below the
// directory, is bounded, and is safe to print.
//
// The statement is a few fields of JSON that in-toto's own module would make by way of protocol
// buffers; the envelope, where mistakes are costly, is go-securesystemslib's.
package artifact
