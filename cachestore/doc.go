// Package cachestore stores every byte that agentbox can get again: images, setup results,
// workspace bases, snapshots and artifacts, cut into chunks that are named by their SHA-256 and
// stored once. It knows nothing of boxes and peers: missing bytes come from a Source, and what a
// blob is for is a Kind, which matters for quotas only.
//
// A Store is the open directory. It is composed of small types, each with its own lock and tests:
// names and pins (what has to stay), space and ballast (quota), quarantine (damage), imageFiles,
// packs, handles and guard (what gc must not touch). PutStream and PutImage (PutImageFile) store
// bytes and return the digest of a manifest. OpenBlob, File, FillImage and CopyTo read them, and
// get what is missing from a Source. Publish and Pin keep a manifest, GC removes what nothing
// keeps, Verify and Scrub look for damage. Its callers are agentbox/layers, which says what the
// blobs mean, and agentbox/daemon, which opens the one store of a home.
//
// Words, besides those of package blob: a claim is an entry of the index, "this chunk lies there".
// A root is what keeps a manifest and its chunks: a pin, or a name that has not expired. To hold is
// to keep for as long as this process uses it. To charge is to count bytes for a manifest, and so
// for its kind.
//
// Bytes lie in files: an image's chunks in a sparse file of its own, at their places, so that a
// complete one is attached as it is; everything else in packs. Names and pins are a small file
// each. The index (badger) only says where chunks are, and what is known of manifests (layout.go
// has every name, docs/internals/formats.md every byte).
//
// No crash breaks it, because of the order in which things are written:
//
//   - bytes are synced before they are claimed, and a blob that is put becomes known by its
//     manifest last of all. So the index may claim too little and never too much, and can be made
//     anew by reading the files (Verify with Rebuild);
//   - claims are taken back before the space is freed (sweep.go). A reader that comes between finds
//     wrong bytes, asks the index again, and learns that the claim is gone;
//   - small files are replaced as a whole (disk.Replace), and what was half written has a name that
//     the next Open removes.
//
// Everything is hashed as it is read, by SHA-256 or by a keyed hash of bytes whose SHA-256 is known
// (identify.go); Stored is the one exception and says so. A chunk that
// does not match is removed from the index, listed in Damaged, and fetched again from a Source; it
// never becomes zeros.
//
// One process has a store open (a lock sees to it); all methods may be called at once. Locks are
// taken in this order: Store.gcMu, names.mu, pins.mu, the mutex of a filler or of workers,
// writer.mu, Store.imageMu, Store.metaMu, packs.mu, guard.mu. All others are held for a few lines
// in which no other is taken.
//
// Errors that a caller may branch on have a code of package agentbox: NotFound (not here, and the
// Source does not have it), Corrupt (bytes that do not match their digest), NoSpace (quota or
// disk), Invalid (what was asked for makes no sense), Conflict (another process has the store open,
// or a key stands for something else), Unavailable (the disk fails or is read-only).
package cachestore
