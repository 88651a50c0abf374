// Package index remembers where chunks lie and what is known of manifests, in badger, for package
// cachestore alone. It holds no bytes of chunks, and nothing that cannot be found again by reading
// the files: it may be thrown away. It knows nothing of files, roots or eviction; that what it is
// told is true is its caller's affair.
//
// An Index answers for one key at a time (Chunk, Meta, Known) or for all of a sort (EachChunk,
// EachMeta, EachKnown), and is changed by a Batch. A chunk has a Location, a manifest a Meta. A
// third table remembers which digest a fingerprint stands for (blob.Fingerprint), with the secret
// of the fingerprints beside it.
//
// Every value carries a checksum over its key and itself, because badger was seen to return flipped
// bits without an error. A value that fails it is taken for absent and counted: the bytes in the
// files are then not claimed, and Verify with Rebuild claims them again.
//
// badger panics over damaged files and writes through memory maps; guarded and Open say how the
// process survives both.
package index
