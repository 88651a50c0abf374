package index

import (
	"context"
	"crypto/rand"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// secretKey is the key under which the secret lies.
var secretKey = []byte{'k'}

// Secret is the key of the fingerprints in this index. It was made with it, goes with it, and is of
// no use elsewhere.
func (x *Index) Secret() blob.FingerprintKey { return x.secret }

// openSecret reads the secret. When there is none, or it is damaged, a new one is made, to which
// the fingerprints of an old one say nothing; they are forgotten first, so that a crash between the
// two leaves no fingerprints under a secret that is not theirs.
func (x *Index) openSecret() error {
	secret, found, err := lookup(x, secretKey, exactly[blob.FingerprintKey])
	if x.secret = secret; err != nil || found {
		return err
	}
	if _, err := rand.Read(x.secret[:]); err != nil {
		return err
	}
	if err := x.forgetAll(); err != nil {
		return err
	}
	return x.Apply(&Batch{changes: []change{{secretKey, seal(secretKey, append([]byte(nil), x.secret[:]...))}}})
}

// forgetAll drops every fingerprint.
func (x *Index) forgetAll() error {
	var b Batch
	err := x.EachKnown(context.Background(), func(f blob.Fingerprint, _ agentbox.Digest) error {
		b.Forget(f)
		return nil
	})
	if err != nil {
		return err
	}
	return x.Apply(&b)
}

// Known returns which digest the bytes with a fingerprint have, false when that was never told or
// is forgotten. It does not mean that the chunk is here.
func (x *Index) Known(f blob.Fingerprint) (agentbox.Digest, bool, error) {
	return lookup(x, knownKeyOf(f), exactly[agentbox.Digest])
}

// exactly is a value that is nothing but the bytes of an A.
func exactly[A agentbox.Digest | blob.FingerprintKey](b []byte) (a A, ok bool) {
	if len(b) != len(a) {
		return a, false
	}
	return A(b), true
}

// EachKnown is EachChunk for fingerprints, in their order: each with the digest it stands for.
func (x *Index) EachKnown(ctx context.Context, f func(blob.Fingerprint, agentbox.Digest) error) error {
	return each(ctx, x, knownKey, exactly[agentbox.Digest], f)
}
