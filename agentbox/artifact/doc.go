// Package artifact keeps the files that a configuration's artifacts: names when a task ends, with a
// statement in the form of in-toto of what they are and where they came from, in a DSSE envelope
// that this host signs. It asks no box and keeps no key: what a box sent comes as an archive, every
// name and byte of which is data, and whoever calls has the key.
//
// The statement is a few fields of JSON that in-toto's own module would make by way of protocol
// buffers; the envelope, where mistakes cost, is go-securesystemslib's.
package artifact
