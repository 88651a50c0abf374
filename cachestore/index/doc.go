// Package index records where chunks are and the metadata of manifests, in badger, for package
// cachestore alone. It holds no bytes of chunks, and nothing that cannot be found again by reading
// the files, so it may be thrown away. It knows nothing of files, roots or eviction; its caller
// ensures that what it records is true.
//
// An Index looks up one key (Chunk, Meta, LookupFingerprint) or iterates over a table (EachChunk,
// EachMeta, EachFingerprint), and is changed by a Batch. A chunk has a Location, a manifest a Meta.
// A third table maps fingerprints (blob.Fingerprint) to digests; the secret key of the fingerprints
// is stored beside it.
//
// Every value carries a checksum over its key and itself, because badger was seen to return flipped
// bits without an error. A value that fails it counts as absent and increments Damaged: the bytes
// in the files are then no longer claimed, until Verify with Rebuild claims them again.
//
// badger panics over damaged files and writes through memory maps; guarded and Open explain how the
// process survives both.
package index
