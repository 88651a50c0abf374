// Package index remembers where chunks lie and what is known of manifests, in badger. It holds no
// bytes of chunks, and nothing that cannot be found again by reading the files: it may be thrown
// away.
//
// Every value carries a checksum over its key and itself, because badger was seen to return flipped
// bits without an error. A value that fails it is taken for absent and counted.
package index
