package cachestore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// space keeps account of bytes, those that are about to be written among them. Without the
// reservations two writers could each find room for one, and then both write. mu guards all of it.
type space struct {
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

// short tells by how much n bytes more would exceed the quota, and which one; 0 when they fit.
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
func (s *Store) reserve(ctx context.Context, kind blob.Kind, n int64) error {
	err := s.tryReserve(kind, n)
	if err == nil || agentbox.CodeOf(err) != agentbox.NoSpace {
		return err
	}
	if _, gcErr := s.GC(ctx, GCOptions{Need: n, Kind: kind}); gcErr != nil {
		return errors.Join(err, gcErr)
	}
	return s.tryReserve(kind, n)
}

// tryReserve reserves n bytes if the quota and the disk have them. What others have reserved is not
// written yet, so the file system still counts it as free: it is taken off.
func (s *Store) tryReserve(kind blob.Kind, n int64) error {
	free, err := s.fs.Free(s.cfg.Dir)
	if err != nil {
		return s.hostError(err)
	}
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	if over, which := s.space.short(kind, n); over > 0 {
		return agentbox.Errorf(agentbox.NoSpace, "the store's quota (%s) is used up: %d bytes more are needed", which, over).
			WithHint("agentbox cache quota SIZE raises it; %s", freeHint)
	}
	if free-s.space.reserved-n < s.cfg.KeepFree {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are needed, %d MiB are free, %d of them are kept for others",
			s.cfg.Dir, (n+1<<20-1)>>20, free>>20, s.cfg.KeepFree>>20).WithHint(freeHint)
	}
	s.space.reserved += n
	return nil
}

// release gives a reservation back.
func (s *Store) release(n int64) {
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	s.space.reserved -= n
}

// countKinds adds up what the manifests are charged for. It is done when the store is opened and
// after a rebuild; in between the sums are kept as blobs come and go.
func (s *Store) countKinds(ctx context.Context) error {
	kinds := map[blob.Kind]int64{}
	err := s.index.EachMeta(ctx, func(_ agentbox.Digest, m index.Meta) error {
		kinds[m.Kind] += m.Charged
		return nil
	})
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	s.space.kinds = kinds
	return err
}

// Usage tells what the store takes. It reads what is known of every manifest.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	free, err := s.fs.Free(s.cfg.Dir)
	if err != nil {
		return Usage{}, s.hostError(err)
	}
	u := Usage{Free: free}
	err = s.index.EachMeta(ctx, func(agentbox.Digest, index.Meta) error {
		u.Manifests++
		return nil
	})
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	u.Bytes, u.Kinds, u.Quota = s.space.used, maps.Clone(s.space.kinds), s.space.quota
	return u, err
}

// maxQuotaFile bounds quota.json when it is read; it has a line per kind.
const maxQuotaFile = 64 << 10

// openQuota reads the quota; no file is no quota. One that cannot be read is an error, and not no
// quota: the store would grow beyond what its user allowed.
func (s *Store) openQuota() error {
	s.space.kinds = map[blob.Kind]int64{}
	b, err := disk.ReadFile(s.fs, s.path(quotaName), maxQuotaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.hostError(err)
	}
	if s.space.quota, err = decodeQuota(b); err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "%s: %w", s.path(quotaName), err).WithHint("agentbox daemon stop, and remove the file")
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

// check tells what is wrong with a quota, as an error of code Invalid.
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

// SetQuota sets the quota for good: it replaces all of the old one, and is on disk when SetQuota
// returns. What is above it goes with the next gc, not at once. Invalid for a negative number or an
// unknown kind.
func (s *Store) SetQuota(q Quota) error {
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
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	s.space.quota = q
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
func (s *Store) room() error {
	free, err := s.fs.Free(s.cfg.Dir)
	if err != nil {
		return s.hostError(err)
	}
	need := int64(indexRoom)
	if s.guard.collecting.Load() {
		need = gcRoom
	}
	if free < need {
		return agentbox.Errorf(agentbox.NoSpace, "the disk of the store at %s is full: %d MiB are free", s.cfg.Dir, free>>20).WithHint(freeHint)
	}
	return nil
}

// inflateBallast sets space aside while there is plenty: KeepFree and the ballast must be left
// over. Without it gc works too, as long as the disk is not full.
func (s *Store) inflateBallast() {
	free, err := s.fs.Free(s.cfg.Dir)
	if err != nil || s.cfg.Ballast < 0 || free < s.cfg.KeepFree+2*s.cfg.Ballast {
		return
	}
	if err := disk.Allocate(s.path(ballastName), s.cfg.Ballast); err != nil {
		s.log.Warn("no ballast", "error", err)
	}
}

// dropBallast gives the space back to the disk. inflateBallast takes it again after gc.
func (s *Store) dropBallast() {
	if err := os.Remove(s.path(ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot remove the ballast", "error", err)
	}
}
