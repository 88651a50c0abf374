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

// space accounts for the bytes on disk and for those about to be written. Without reservations, two
// writers could each find room for their bytes, and exceed it together.
type space struct {
	dir
	keepFree int64 // Config.KeepFree
	// collecting reports whether a gc runs, which lets the index use more of the disk.
	collecting func() bool
	// evict makes room for need bytes of a kind, as far as possible, by a gc.
	evict func(ctx context.Context, need int64, kind blob.Kind) error

	mu sync.Mutex
	// used is the number of bytes on disk: allocated ones for images, the size for packs.
	used int64
	// reserved is the number of bytes that callers of reserve are about to write.
	reserved int64
	// kinds is the number of bytes charged to the manifests of each kind, including pending writes.
	kinds map[blob.Kind]int64
	quota Quota
}

// add changes the number of bytes used, and, unless kind is "", of those charged to a kind.
func (s *space) add(kind blob.Kind, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = max(0, s.used+n) // the last block of an image occupies more than its bytes
	if kind != "" {
		s.kinds[kind] += n
	}
}

// uncharge removes bytes from those charged to a kind; "" is no kind.
func (s *space) uncharge(kind blob.Kind, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind != "" {
		s.kinds[kind] -= n
	}
}

// shortfall returns by how much n bytes more would exceed the quota, and which quota; 0 if they
// fit. Callers hold mu.
func (s *space) shortfall(kind blob.Kind, n int64) (int64, string) {
	if over := s.used + s.reserved + n - s.quota.Total; s.quota.Total > 0 && over > 0 {
		return over, "total"
	}
	if limit := s.quota.Kinds[kind]; limit > 0 && s.kinds[kind]+n > limit {
		return s.kinds[kind] + n - limit, string(kind)
	}
	return 0, ""
}

// reserve makes room for n bytes before they are written, by a gc if necessary. The error is
// NoSpace if that does not free enough. The caller calls release after it has reported the bytes
// written to space.add. It must hold no lock of the store, because gc takes most of them.
func (s *space) reserve(ctx context.Context, kind blob.Kind, n int64) error {
	err := s.tryReserve(kind, n)
	if err == nil || agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if gcErr := s.evict(ctx, n, kind); gcErr != nil {
		return errors.Join(err, gcErr)
	}
	return s.tryReserve(kind, n)
}

// tryReserve reserves n bytes if the quota and the disk permit. The file system still counts other
// reservations as free, so it subtracts them.
func (s *space) tryReserve(kind blob.Kind, n int64) error {
	free, err := s.fs.Free(s.root)
	if err != nil {
		return s.hostError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, which := s.shortfall(kind, n); over > 0 {
		return agentbox.Errorf(agentbox.NoSpace, "the store's quota (%s) is used up: %d bytes more are needed", which, over).
			WithHint("agentbox cache quota SIZE raises it; %s", freeHint)
	}
	if free-s.reserved-n < s.keepFree {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are needed, %d MiB are free, %d of them are kept for others",
			s.root, (n+1<<20-1)>>20, free>>20, s.keepFree>>20).WithHint(freeHint)
	}
	s.reserved += n
	return nil
}

func (s *space) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
}

// count sums up what the manifests are charged with. It runs when the store is opened and after a
// rebuild; in between, the sums are updated as blobs come and go.
func (s *space) count(ctx context.Context, eachMeta func(context.Context, func(agentbox.Digest, index.Meta) error) error) error {
	kinds := map[blob.Kind]int64{}
	err := eachMeta(ctx, func(_ agentbox.Digest, m index.Meta) error {
		kinds[m.Kind] += m.Charged
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = kinds
	return err
}

func (s *space) usedBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// maxQuotaFile bounds quota.json in bytes when it is read. It has a line per kind.
const maxQuotaFile = 64 << 10

// load reads the quota. There is none without a file. A file that cannot be read is an error,
// because without its quota the store would grow beyond what its user allowed.
func (s *space) load() error {
	s.kinds = map[blob.Kind]int64{}
	b, err := disk.ReadFile(s.fs, s.path(quotaName), maxQuotaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.hostError(err)
	}
	if s.quota, err = decodeQuota(b); err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%s: %w", s.path(quotaName), err).WithHint("agentbox daemon stop, and remove the file")
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

// check returns an error of code Invalid that describes what is wrong with a quota, or nil.
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

func (s *space) set(q Quota) error {
	if err := q.check(); err != nil {
		return err
	}
	b, err := q.encode()
	if err != nil {
		return err
	}
	if err := disk.Replace(s.fs, s.path(quotaName), b); err != nil {
		return s.hostError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota = q
	return nil
}

// minIndexSpace is the number of bytes that must be free before the index is written: badger's maps
// have up to 32 MiB each, and it writes a table while the log for it still exists. minGCSpace
// replaces it during a gc, when the reserve file is gone.
const (
	minIndexSpace = 48 << 20
	minGCSpace    = 16 << 20
)

// room returns NoSpace when the disk has too little space for a write to the index, which calls it
// before each one.
func (s *space) room() error {
	free, err := s.fs.Free(s.root)
	if err != nil {
		return s.hostError(err)
	}
	need := int64(minIndexSpace)
	if s.collecting() {
		need = minGCSpace
	}
	if free < need {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are free", s.root, free>>20).WithHint(freeHint)
	}
	return nil
}
