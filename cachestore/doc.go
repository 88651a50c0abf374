// Package cachestore stores everything that agentbox can get again: images, setup results,
// workspace bases, snapshots and artifacts, cut into chunks that are named by their SHA-256 and
// stored once. It knows nothing of boxes and peers: missing bytes come from a Source, and the
// purpose of a blob is a Kind, which matters only for quotas.
//
// A Store is the open directory. It is composed of small types, each with its own lock and tests:
// names and pins (the roots), space and reserveFile (quota), quarantine (damage), imageFiles,
// packs, handles and guard (what gc must not touch). PutStream, PutImage and PutImageFile store
// bytes and return the digest of a manifest. OpenBlob, File, OpenLazyImage and CopyTo read them,
// and get what is missing from a Source. Publish and Pin keep a manifest, GC removes what nothing
// keeps, Verify and Scrub find damage. Its callers are agentbox/layers, which gives blobs their
// meaning, and agentbox/daemon, which opens the one store of a home.
//
// Terms, besides those of package blob: a claim is an entry of the index, the location of a chunk.
// A root keeps a manifest and its chunks: a pin, or a name that has not expired. To hold something
// is to keep it while this process uses it. To charge bytes to a manifest is to count them for it,
// and so for its kind. Metadata is the entry of a manifest in the index.
//
// Bytes are in files. An image's chunks are in a sparse file of its own, at their offsets, so that a
// complete image is attached as it is. All other chunks are in packs. Each name and each pin is a
// small file. The index (badger) only has the locations of chunks and the metadata of manifests.
// layout.go has every file name, docs/internals/formats.md the decoder of each format.
//
// A crash leaves a consistent store, because of the order of writes:
//
//   - Bytes are synced before they are claimed, and the metadata of a manifest is written last. So
//     the index may lack claims, but has none that do not hold, and it can be rebuilt by reading the
//     files (Verify with Rebuild).
//   - Claims are removed before space is freed (sweep.go). A reader in between finds wrong bytes,
//     looks into the index again, and finds that the claim is gone.
//   - Small files are replaced as a whole (disk.Replace). A file that is being written has a name
//     that the next Open removes.
//
// Everything is hashed as it is read, by SHA-256 or by a keyed hash of bytes whose SHA-256 is known
// (identify.go). The only exception is ReadStored. A chunk that does not match is removed from the
// index, passed to OnDamage, and fetched again from a Source; it never becomes zeros.
//
// A lock ensures that only one process has a store open. All methods are safe for concurrent use.
// Locks are taken in this order: Store.gcMu, names.mu, pins.mu, the mutex of a filler or of
// workers, writer.mu, Store.imageMu, Store.metaMu, packs.mu, guard.mu. All others are held for a
// few lines in which no other lock is taken.
//
// Errors for which a caller may branch have a code of package agentbox: NotFound (not in the store,
// and the Source does not have it), Corrupt (bytes that do not match their digest), NoSpace (quota
// or disk), Invalid (wrong arguments), Conflict (another process has the store open, or a key has
// another result), Unavailable (the disk fails or is read-only).
package cachestore
