package index

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Batch is a list of changes, applied in order. The zero Batch is empty.
type Batch struct {
	changes []change
}

type change struct {
	key, value []byte // no value: remove
}

// SetChunk claims that a chunk lies at p. The file must have been synced before the batch is
// applied.
func (b *Batch) SetChunk(d agentbox.Digest, p Location) {
	k := key(chunkKey, d)
	b.changes = append(b.changes, change{k, seal(k, encodeLocation(p))})
}

// DropChunk takes a claim back.
func (b *Batch) DropChunk(d agentbox.Digest) {
	b.changes = append(b.changes, change{key: key(chunkKey, d)})
}

// SetMeta says that a manifest is here.
func (b *Batch) SetMeta(d agentbox.Digest, m Meta) error {
	v, err := encodeMeta(m)
	if err != nil {
		return err
	}
	k := key(metaKey, d)
	b.changes = append(b.changes, change{k, seal(k, v)})
	return nil
}

// DropMeta says that it no longer is.
func (b *Batch) DropMeta(d agentbox.Digest) {
	b.changes = append(b.changes, change{key: key(metaKey, d)})
}

// Remember says that the bytes with a fingerprint have a digest. That is true whether or not the
// chunk is here.
func (b *Batch) Remember(f blob.Fingerprint, d agentbox.Digest) {
	k := knownKeyOf(f)
	b.changes = append(b.changes, change{k, seal(k, bytes.Clone(d[:]))})
}

// Forget takes back what Remember said.
func (b *Batch) Forget(f blob.Fingerprint) {
	b.changes = append(b.changes, change{key: knownKeyOf(f)})
}

// Len counts the changes.
func (b *Batch) Len() int { return len(b.changes) }

// Apply makes the changes last. A crash may leave any number of them from the front, so those that
// others rest on come first. An error leaves it open how many were made.
func (x *Index) Apply(b *Batch) error {
	for rest := b.changes; len(rest) > 0; {
		n := min(len(rest), batchKeys)
		if err := x.room(); err != nil {
			return err
		}
		if err := x.apply(rest[:n]); err != nil {
			return x.describe(err)
		}
		rest = rest[n:]
	}
	return nil
}

func (x *Index) apply(changes []change) error {
	return guarded(func() error {
		return x.db.Update(func(t *badger.Txn) error {
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
