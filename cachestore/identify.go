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

// identify returns the digest of a chunk, and tells whether it is here; if it is, it stays until
// the writer is closed. A fingerprint is believed only for a chunk that is here: a digest under
// which something is stored was computed by SHA-256 from these very bytes.
func (w *writer) identify(p []byte) (d agentbox.Digest, here bool, err error) {
	f := w.s.prints.Of(p)
	d, known, err := w.s.index.Known(f)
	if err != nil {
		return d, false, err
	}
	if known {
		if here, err = w.has(d); here || err != nil {
			return d, here, err
		}
	}
	d = blob.Sum(p)
	w.remember(f, d)
	here, err = w.has(d)
	return d, here, err
}

// remember records with the next flush which digest a fingerprint stands for. The digest must have
// been computed.
func (w *writer) remember(f blob.Fingerprint, d agentbox.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[f] = d
}

// recognise returns an error of code Corrupt unless d is the digest of p. It is the check of all
// reads for this host. If the fingerprint is not known, SHA-256 is computed.
func (s *Store) recognise(d agentbox.Digest, p []byte) error {
	if known, ok, err := s.index.Known(s.prints.Of(p)); err == nil && ok && known == d {
		return nil
	}
	return blob.Check(d, p)
}

// forget drops the fingerprints of chunks that are gone. They would be true still, but useless, and
// the index would grow with all that ever was here.
func (g *collection) forget(ctx context.Context) error {
	var b index.Batch
	err := g.s.index.EachKnown(ctx, func(f blob.Fingerprint, d agentbox.Digest) error {
		if _, ok := g.live[shortDigest(d)]; ok {
			return nil
		}
		if _, ok, err := g.s.index.Chunk(d); ok || err != nil {
			return err
		}
		b.Forget(f)
		return nil
	})
	if err != nil {
		return err
	}
	return g.s.index.Apply(&b)
}
