package image

import (
	"context"

	"agentbox/agentbox"
)

type included struct{}

func resolveIncludes(_ context.Context, list []Include) ([]included, error) {
	if len(list) > 0 {
		return nil, agentbox.Errorf(agentbox.Invalid, "include")
	}
	return nil, nil
}

func (s *Store) ensureIncluded(ctx context.Context, base Image, r Recipe, list []included, p Progress) (Image, error) {
	return base, nil
}
