package cachestore

import (
	"context"
	"maps"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// Usage reports what the store takes. It reads what is known of every manifest.
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

// SetQuota sets the quota for good: it replaces all of the old one, and is on disk when SetQuota
// returns. What is above it goes with the next gc, not at once. Invalid for a negative number or an
// unknown kind.
func (s *Store) SetQuota(q Quota) error { return s.space.set(q) }
