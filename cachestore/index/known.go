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
	found := false
	err := x.get(secretKey, func(v []byte) {
		var body []byte
		if body, found = x.body(secretKey, v, len(x.secret)); found {
			copy(x.secret[:], body)
		}
	})
	if err != nil || found {
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

// Known tells which digest the bytes with a fingerprint have, false when that was never told or is
// forgotten. It does not mean that the chunk is here.
func (x *Index) Known(f blob.Fingerprint) (d agentbox.Digest, ok bool, err error) {
	k := knownKeyOf(f)
	err = x.get(k, func(v []byte) { d, ok = x.known(k, v) })
	return d, ok, err
}

// known decodes what a fingerprint stands for.
func (x *Index) known(k, v []byte) (d agentbox.Digest, ok bool) {
	body, ok := x.body(k, v, len(d))
	if ok {
		copy(d[:], body)
	}
	return d, ok
}

// body unseals a value that must have n bytes, and counts one that is damaged.
func (x *Index) body(k, v []byte, n int) ([]byte, bool) {
	body, ok := unseal(k, v)
	if !ok || len(body) != n {
		x.damaged.Add(1)
		return nil, false
	}
	return body, true
}

// EachKnown is EachChunk for fingerprints, in their order: each with the digest it stands for.
func (x *Index) EachKnown(ctx context.Context, f func(blob.Fingerprint, agentbox.Digest) error) error {
	return x.each(ctx, knownKey, len(blob.Fingerprint{}), func(k, v []byte) error {
		if d, ok := x.known(k, v); ok {
			return f(blob.Fingerprint(k[1:]), d)
		}
		return nil
	})
}
