package cachestore

import (
	"context"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// Bytes that were hashed once are known again by their fingerprint (package blob), which costs a
// quarter of SHA-256. The index remembers which digest a fingerprint stands for. That can be lost,
// and cannot become wrong: it says nothing of what lies where. What is new is stored under no other
// digest than one that was just computed, and Get, Verify and rebuild, on which others rely,
// compute it too.

// identify returns the digest of a chunk, and whether it is in the store; if so, it stays until the
// writer is closed. A fingerprint counts only for a chunk in the store, because its digest was
// computed from these very bytes.
func (w *writer) identify(p []byte) (d agentbox.Digest, here bool, err error) {
	f := w.s.fingerprints.Sum(p)
	d, known, err := w.s.index.LookupFingerprint(f)
	if err != nil {
		return d, false, err
	}
	if known {
		if here, err = w.has(d); here || err != nil {
			return d, here, err
		}
	}
	d = blob.Sum(p)
	w.recordFingerprint(f, d)
	here, err = w.has(d)
	return d, here, err
}

// recordFingerprint records the digest of a fingerprint with the next flush. The digest must have
// been computed from the bytes.
func (w *writer) recordFingerprint(f blob.Fingerprint, d agentbox.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[f] = d
}

// checkFast returns an error of code Corrupt unless d is the digest of p. All reads for this host
// use it. It computes SHA-256 only if the fingerprint is not known.
func (s *Store) checkFast(d agentbox.Digest, p []byte) error {
	if known, ok, err := s.index.LookupFingerprint(s.fingerprints.Sum(p)); err == nil && ok && known == d {
		return nil
	}
	return blob.Check(d, p)
}

// dropFingerprints removes the fingerprints of chunks that are gone. They would remain correct, but
// the index would grow with everything that was ever in the store.
func (col *collection) dropFingerprints(ctx context.Context) error {
	var b index.Batch
	err := col.s.index.EachFingerprint(ctx, func(f blob.Fingerprint, d agentbox.Digest) error {
		if _, ok := col.needed[shortDigest(d)]; ok {
			return nil
		}
		if _, ok, err := col.s.index.Chunk(d); ok || err != nil {
			return err
		}
		b.DropFingerprint(f)
		return nil
	})
	if err != nil {
		return err
	}
	return col.s.index.Apply(&b)
}
