package index

import (
	"context"
	"crypto/rand"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// secretKey is the key of the entry with the secret.
var secretKey = []byte{'k'}

// Secret returns the key of the fingerprints in this index. It is as old as the index, is lost with
// it, and is of no use elsewhere.
func (i *Index) Secret() blob.FingerprintKey { return i.secret }

// openSecret reads the secret. If it is absent or damaged, it makes a new one, for which old
// fingerprints are meaningless. It removes these first, so that a crash between the two steps
// leaves no fingerprints of another secret.
func (i *Index) openSecret() error {
	secret, found, err := lookup(i, secretKey, decodeExact[blob.FingerprintKey])
	if i.secret = secret; err != nil || found {
		return err
	}
	if _, err := rand.Read(i.secret[:]); err != nil {
		return err
	}
	if err := i.dropFingerprints(); err != nil {
		return err
	}
	return i.Apply(&Batch{changes: []change{{secretKey, seal(secretKey, append([]byte(nil), i.secret[:]...))}}})
}

// dropFingerprints removes every fingerprint.
func (i *Index) dropFingerprints() error {
	var b Batch
	err := i.EachFingerprint(context.Background(), func(f blob.Fingerprint, _ agentbox.Digest) error {
		b.DropFingerprint(f)
		return nil
	})
	if err != nil {
		return err
	}
	return i.Apply(&b)
}

// LookupFingerprint returns the digest of the bytes with a fingerprint, or false when it is not
// recorded. It does not mean that the chunk is in the store.
func (i *Index) LookupFingerprint(f blob.Fingerprint) (agentbox.Digest, bool, error) {
	return lookup(i, fingerprintKeyOf(f), decodeExact[agentbox.Digest])
}

// decodeExact decodes a value that consists of the bytes of an A.
func decodeExact[A agentbox.Digest | blob.FingerprintKey](b []byte) (a A, ok bool) {
	if len(b) != len(a) {
		return a, false
	}
	return A(b), true
}

// EachFingerprint is EachChunk for fingerprints, in their order, each with its digest.
func (i *Index) EachFingerprint(ctx context.Context, f func(blob.Fingerprint, agentbox.Digest) error) error {
	return each(ctx, i, knownKey, decodeExact[agentbox.Digest], f)
}
