package index

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Batch is a list of changes, applied in order. The zero Batch is empty. It is not safe for
// concurrent use. It may be applied again after an error, because every change sets a state and not
// a difference.
type Batch struct {
	changes []change
}

// change sets a key, or removes it.
type change struct {
	key, value []byte // no value: remove
}

// SetChunk claims that a chunk is at p, replacing any other claim on it. The file must have been
// synced before the batch is applied.
func (b *Batch) SetChunk(d agentbox.Digest, p Location) {
	k := key(chunkKey, d)
	b.changes = append(b.changes, change{k, seal(k, encodeLocation(p))})
}

// DropChunk removes the claim on a chunk.
func (b *Batch) DropChunk(d agentbox.Digest) {
	b.changes = append(b.changes, change{key: key(chunkKey, d)})
}

// SetMeta records that a manifest is in the store, with its metadata. It fails only if m cannot be
// encoded.
func (b *Batch) SetMeta(d agentbox.Digest, m Meta) error {
	v, err := encodeMeta(m)
	if err != nil {
		return err
	}
	k := key(metaKey, d)
	b.changes = append(b.changes, change{k, seal(k, v)})
	return nil
}

// DropMeta removes the metadata of a manifest.
func (b *Batch) DropMeta(d agentbox.Digest) {
	b.changes = append(b.changes, change{key: key(metaKey, d)})
}

// SetFingerprint records the digest of the bytes with a fingerprint. This holds whether or not the
// chunk is in the store.
func (b *Batch) SetFingerprint(f blob.Fingerprint, d agentbox.Digest) {
	k := fingerprintKeyOf(f)
	b.changes = append(b.changes, change{k, seal(k, bytes.Clone(d[:]))})
}

// DropFingerprint removes a record of SetFingerprint.
func (b *Batch) DropFingerprint(f blob.Fingerprint) {
	b.changes = append(b.changes, change{key: fingerprintKeyOf(f)})
}

// DropDamaged removes an entry whose value is damaged.
func (b *Batch) DropDamaged(k Key) { b.changes = append(b.changes, change{key: k.bytes}) }

// Len returns the number of changes.
func (b *Batch) Len() int { return len(b.changes) }

// Apply applies the changes in transactions of batchKeys changes each. They are on disk when it
// returns. After a crash, any number of these transactions from the front may be on disk, so
// changes on which others depend come first. The same holds after an error, except that NoSpace,
// from room, comes before a transaction writes anything.
func (i *Index) Apply(b *Batch) error {
	for rest := b.changes; len(rest) > 0; {
		n := min(len(rest), batchKeys)
		if err := i.room(); err != nil {
			return err
		}
		if err := i.apply(rest[:n]); err != nil {
			return i.describe(err)
		}
		rest = rest[n:]
	}
	return nil
}

// apply makes changes in one transaction: all of them or none.
func (i *Index) apply(changes []change) error {
	return recoverPanic(func() error {
		return i.db.Update(func(t *badger.Txn) error {
			for _, c := range changes {
				var err error
				if c.value == nil {
					err = t.Delete(c.key)
				} else {
					err = t.Set(c.key, c.value)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}
