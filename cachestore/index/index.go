package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Index is an open index. The caller ensures that only one process has a directory open. Its
// methods are safe for concurrent use.
type Index struct {
	// dir identifies the directory as it was opened: Close must know whether it is still the same.
	dir os.FileInfo
	// db may only be read or written through guarded.
	db *badger.DB
	// room is the argument of Open.
	room   func() error
	secret blob.FingerprintKey
	// damaged counts values that failed their checksum.
	damaged atomic.Int64
}

// memTable and valueFile are in bytes. badger's defaults are 64 MiB and 1 GiB, for databases with
// values. The daemon holds memTable in memory all the time.
const (
	memTable  = 16 << 20
	valueFile = 16 << 20
	// batchKeys keeps a transaction under 15% of the memtable, beyond which badger refuses it: a
	// key and its value have less than 600 bytes.
	batchKeys = 2000
)

// Open opens or creates the index in dir, whose parent must exist. It calls room before it writes
// anything, and so does Apply: badger writes through memory maps, and a disk that is full when
// their pages are written would kill the process. Open returns an error of room as it is; any other
// error means that the index cannot be read and is best quarantined.
func Open(dir string, room func() error) (*Index, error) {
	if err := room(); err != nil {
		return nil, err
	}
	x := &Index{room: room}
	err := recoverPanic(func() (err error) {
		if x.db, err = badger.Open(badgerOptions(dir)); err == nil {
			x.dir, err = os.Stat(dir)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := x.openSecret(); err != nil {
		return nil, errors.Join(x.describe(err), x.Close())
	}
	return x, nil
}

// badgerOptions returns badger's options. Writes are synced, because a claim must survive a crash.
// There is one version of each key and no detection of conflicts, because the store serializes
// writers of the same key. The lock of the store's directory replaces badger's. Tables and caches
// are small: a million chunks have to fit in the memory of a daemon
// (TestMillionChunksFitInMemory).
func badgerOptions(dir string) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(true).WithMetricsEnabled(false)
	o = o.WithDetectConflicts(false).WithNumVersionsToKeep(1).WithBypassLockGuard(true)
	o = o.WithMemTableSize(memTable).WithNumMemtables(2).WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(6)
	o = o.WithBaseTableSize(4 << 20).WithBaseLevelSize(16 << 20).WithNumCompactors(2).WithNumGoroutines(1)
	o = o.WithValueLogFileSize(valueFile).WithValueThreshold(1 << 20)
	// Blocks come from the page cache; a cache of our own would hold them twice.
	o = o.WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(8 << 20)
	return o.WithChecksumVerificationMode(options.OnTableAndBlockRead)
}

// recoverPanic turns a panic of badger, which it raises over damaged files, into an error. It
// cannot catch a panic in badger's own goroutines.
func recoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("index: %v", p)
		}
	}()
	return do()
}

// Close writes what is in memory and closes the index. Without room for that, it leaves the data in
// the log, from which the next Open reads it. It also does nothing if the directory was removed or
// moved, where badger would retry for ever.
func (i *Index) Close() error {
	if agentbox.CodeOf(i.room()) == agentbox.NoSpace {
		return nil
	}
	if now, err := os.Stat(i.db.Opts().Dir); err != nil || !os.SameFile(now, i.dir) {
		return nil
	}
	return recoverPanic(i.db.Close)
}

// Damaged returns the number of values that failed their checksum since Open.
func (i *Index) Damaged() int64 { return i.damaged.Load() }

// Chunk returns the location of a chunk, or false when the chunk is not in the store.
func (i *Index) Chunk(d agentbox.Digest) (Location, bool, error) {
	return lookup(i, key(chunkKey, d), decodeLocation)
}

// Meta returns the metadata of a manifest, or false when it is not in the store.
func (i *Index) Meta(d agentbox.Digest) (Meta, bool, error) {
	return lookup(i, key(metaKey, d), decodeMeta)
}

// lookup returns the value of a key, or false when it is absent or damaged.
func lookup[V any](x *Index, k []byte, decode func([]byte) (V, bool)) (out V, ok bool, err error) {
	err = x.get(k, func(v []byte) { out, ok = decoded(x, k, v, decode) })
	return out, ok, err
}

// decoded decodes a value, and counts it if it is damaged.
func decoded[V any](x *Index, k, v []byte, decode func([]byte) (V, bool)) (out V, ok bool) {
	body, ok := unseal(k, v)
	if ok {
		out, ok = decode(body)
	}
	if !ok {
		x.damaged.Add(1)
	}
	return out, ok
}

// get calls use with the value of a key, if there is one. The value is valid during the call only.
func (i *Index) get(k []byte, use func(v []byte)) error {
	err := recoverPanic(func() error {
		return i.db.View(func(t *badger.Txn) error {
			item, err := t.Get(k)
			if err != nil {
				return err
			}
			return item.Value(func(v []byte) error { use(v); return nil })
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	return i.describe(err)
}

// DamagedKeys returns the keys of chunks and manifests whose values fail their checksum.
func (i *Index) DamagedKeys(ctx context.Context) ([]Key, error) {
	var out []Key
	for _, prefix := range []byte{chunkKey, metaKey} {
		err := i.eachItem(ctx, prefix, len(agentbox.Digest{}), func(k, v []byte) error {
			if _, ok := unseal(k, v); !ok {
				out = append(out, Key{bytes.Clone(k)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Key is the key of an entry that DamagedKeys found, for Batch.DropDamaged.
type Key struct{ bytes []byte }

// EachChunk calls f for every chunk, in the order of digests, on a snapshot of the index. It stops
// when ctx ends or f returns an error, and returns that error. It skips damaged entries. f may read
// the index and apply a Batch.
func (i *Index) EachChunk(ctx context.Context, f func(agentbox.Digest, Location) error) error {
	return each(ctx, i, chunkKey, decodeLocation, f)
}

// EachMeta is EachChunk for manifests.
func (i *Index) EachMeta(ctx context.Context, f func(agentbox.Digest, Meta) error) error {
	return each(ctx, i, metaKey, decodeMeta, f)
}

// each iterates over one table, whose keys are a K behind the prefix. It ignores keys of other
// lengths with the same prefix, which a later format may add.
func each[K agentbox.Digest | blob.Fingerprint, V any](ctx context.Context, x *Index, prefix byte, decode func([]byte) (V, bool), f func(K, V) error) error {
	var name K
	return x.eachItem(ctx, prefix, len(name), func(k, v []byte) error {
		if out, ok := decoded(x, k, v, decode); ok {
			return f(K(k[1:]), out)
		}
		return nil
	})
}

// eachItem calls f with every key that has n bytes behind the prefix, and its value. Both are valid
// during the call only.
func (i *Index) eachItem(ctx context.Context, prefix byte, n int, f func(k, v []byte) error) error {
	visit := func(item *badger.Item) error {
		if len(item.Key()) != 1+n {
			return nil
		}
		return item.Value(func(v []byte) error { return f(item.Key(), v) })
	}
	return i.describe(recoverPanic(func() error {
		return i.db.View(func(t *badger.Txn) error {
			o := badger.DefaultIteratorOptions
			// Values are beside their keys (WithValueThreshold), so there is nothing to prefetch.
			o.Prefix, o.PrefetchValues = []byte{prefix}, false
			it := t.NewIterator(o)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := visit(it.Item()); err != nil {
					return err
				}
			}
			return nil
		})
	}))
}

// describe adds a hint to badger's errors; our own errors pass unchanged.
func (i *Index) describe(err error) error {
	if err == nil || errors.As(err, new(*agentbox.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return agentbox.Errorf(agentbox.Corrupt, "the store's index cannot be read: %w", err).WithHint("agentbox cache verify --rebuild")
}
