package cachestore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// space accounts for the bytes on disk, and for those about to be written: without reservations two
// writers could find room for one of them, and both write.
type space struct {
	dir
	keepFree int64 // Config.KeepFree
	// collecting says that a gc runs, for which the index may use more of the disk.
	collecting func() bool
	// evict makes room for so many bytes of a kind, as far as it can: a gc.
	evict func(ctx context.Context, need int64, kind blob.Kind) error

	mu sync.Mutex
	// used is on disk, as the file system counts it for images, the size for packs.
	used int64
	// reserved is what callers of reserve are about to write.
	reserved int64
	// kinds is what the manifests of each kind are charged with, and pending writes for it.
	kinds map[blob.Kind]int64
	quota Quota
}

// add changes what is used, and, unless kind is "", what is charged to a kind.
func (p *space) add(kind blob.Kind, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = max(0, p.used+n) // the last block of an image takes more than it has bytes
	if kind != "" {
		p.kinds[kind] += n
	}
}

// uncharge takes back what was charged to a kind, "" for none, and is not any more.
func (p *space) uncharge(kind blob.Kind, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind != "" {
		p.kinds[kind] -= n
	}
}

// short returns by how much n bytes more would exceed the quota, and which quota; 0 if they fit.
// Callers hold mu.
func (p *space) short(kind blob.Kind, n int64) (int64, string) {
	if over := p.used + p.reserved + n - p.quota.Total; p.quota.Total > 0 && over > 0 {
		return over, "total"
	}
	if limit := p.quota.Kinds[kind]; limit > 0 && p.kinds[kind]+n > limit {
		return p.kinds[kind] + n - limit, string(kind)
	}
	return 0, ""
}

// reserve makes room for n bytes before they are written, by evicting when there is none: NoSpace
// when that did not help. The caller gives the reservation back with release once it has told
// space.add what it did write, and holds no lock of the store's, as gc takes most of them.
func (p *space) reserve(ctx context.Context, kind blob.Kind, n int64) error {
	err := p.tryReserve(kind, n)
	if err == nil || agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if gcErr := p.evict(ctx, n, kind); gcErr != nil {
		return errors.Join(err, gcErr)
	}
	return p.tryReserve(kind, n)
}

// tryReserve reserves n bytes if the quota and the disk have them. What others have reserved is not
// written yet, so the file system still counts it as free: it is taken off.
func (p *space) tryReserve(kind blob.Kind, n int64) error {
	free, err := p.fs.Free(p.root)
	if err != nil {
		return p.hostError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if over, which := p.short(kind, n); over > 0 {
		return agentbox.Errorf(agentbox.NoSpace, "the store's quota (%s) is used up: %d bytes more are needed", which, over).
			WithHint("agentbox cache quota SIZE raises it; %s", freeHint)
	}
	if free-p.reserved-n < p.keepFree {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are needed, %d MiB are free, %d of them are kept for others",
			p.root, (n+1<<20-1)>>20, free>>20, p.keepFree>>20).WithHint(freeHint)
	}
	p.reserved += n
	return nil
}

// release gives a reservation back.
func (p *space) release(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved -= n
}

// count adds up what manifests are charged for, each of which eachMeta gives. It is done when the
// store is opened and after a rebuild; in between the sums are kept as blobs come and go.
func (p *space) count(ctx context.Context, eachMeta func(context.Context, func(agentbox.Digest, index.Meta) error) error) error {
	kinds := map[blob.Kind]int64{}
	err := eachMeta(ctx, func(_ agentbox.Digest, m index.Meta) error {
		kinds[m.Kind] += m.Charged
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds = kinds
	return err
}

// usedBytes is what the files take on disk.
func (p *space) usedBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// maxQuotaFile bounds quota.json when it is read; it has a line per kind.
const maxQuotaFile = 64 << 10

// load reads the quota; no file is no quota. One that cannot be read is an error, and not no
// quota: the store would grow beyond what its user allowed.
func (p *space) load() error {
	p.kinds = map[blob.Kind]int64{}
	b, err := disk.ReadFile(p.fs, p.path(quotaName), maxQuotaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return p.hostError(err)
	}
	if p.quota, err = decodeQuota(b); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "%s: %w", p.path(quotaName), err).WithHint("agentbox daemon stop, and remove the file")
	}
	return nil
}

func (q Quota) encode() ([]byte, error) {
	b, err := json.MarshalIndent(q, "", "  ")
	return append(b, '\n'), err
}

func decodeQuota(b []byte) (Quota, error) {
	var q Quota
	if err := json.Unmarshal(b, &q); err != nil {
		return Quota{}, err
	}
	return q, q.check()
}

// check reports what is wrong with a quota, as an error of code Invalid.
func (q Quota) check() error {
	if q.Total < 0 {
		return agentbox.Errorf(agentbox.Invalid, "a quota of %d bytes", q.Total)
	}
	for kind, n := range q.Kinds {
		if !kind.Valid() || n < 0 {
			return agentbox.Errorf(agentbox.Invalid, "a quota of %d bytes for %q", n, kind).WithHint("kinds are %v", blob.Kinds)
		}
	}
	return nil
}

// set is Store.SetQuota.
func (p *space) set(q Quota) error {
	if err := q.check(); err != nil {
		return err
	}
	b, err := q.encode()
	if err != nil {
		return err
	}
	if err := disk.Replace(p.fs, p.path(quotaName), b); err != nil {
		return p.hostError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quota = q
	return nil
}

// indexRoom is what must be free before the index is written: badger's maps are up to 32 MiB each,
// and a table goes out beside the log it is made from. gcRoom is what is left of it once the
// ballast is gone.
const (
	indexRoom = 48 << 20
	gcRoom    = 16 << 20
)

// room is asked by the index before each write, and says NoSpace when the disk has too little for
// it.
func (p *space) room() error {
	free, err := p.fs.Free(p.root)
	if err != nil {
		return p.hostError(err)
	}
	need := int64(indexRoom)
	if p.collecting() {
		need = gcRoom
	}
	if free < need {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are free", p.root, free>>20).WithHint(freeHint)
	}
	return nil
}
