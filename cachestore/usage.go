package cachestore

import (
	"context"
	"maps"

	"agentbox/agentbox"
	"agentbox/cachestore/index"
)

// Usage reports the space that the store occupies. It reads the metadata of every manifest.
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

// SetQuota replaces the quota, and has it on disk when it returns. The next gc removes what exceeds
// it. The error is Invalid for a negative number or an unknown kind.
func (s *Store) SetQuota(q Quota) error { return s.space.set(q) }
