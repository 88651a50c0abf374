// Package cachestore keeps every byte agentbox can get again: images, cache trees, workspace bases,
// snapshots, artifacts, cut into chunks that are named by their SHA-256 and stored once. It knows
// nothing of boxes and of peers: where bytes come from is a Source.
//
// Words, besides those of package blob: a claim is an entry of the index, "this chunk lies there".
// A root is what keeps a manifest and its chunks: a pin, or a name that has not expired. To hold is
// to keep for as long as this process uses it.
//
// Bytes lie in files: an image's chunks in a sparse file of its own, at their places, so that a
// complete one is attached as it is; everything else in packs. Names and pins are a small file
// each. The index (badger) only says where chunks are; it is written after the data was synced, so
// that it may claim too little and never too much, and can be made anew by reading the files
// (Verify with Rebuild).
//
// Nothing is handed out that was not hashed on the way, by SHA-256 or by a keyed hash that knows
// the very bytes that were (identify.go). A chunk that does not match is taken out of the index,
// named in Damage, and got again from a Source; it never becomes zeros.
//
// One process has a store open (a lock sees to it); all methods may be called at once.
package cachestore
