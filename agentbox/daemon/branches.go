package daemon

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/source/sources"
)

// dropBranch is api.DropBranch. What somebody pinned stays.
func (d *daemon) dropBranch(ctx context.Context, req api.BranchRef, progress agentbox.Progress) ([]api.CacheEntry, error) {
	p, err := sources.ProjectOf(ctx, req.Directory)
	if err != nil {
		return nil, err
	}
	made, err := d.shares.results.OfBranch(ctx, p.ID(), req.Branch)
	out := []api.CacheEntry{}
	for _, m := range made {
		one, gone := d.entries().Remove(ctx, api.CacheRef{Ref: m.String()}, progress)
		switch agentbox.CodeOf(gone) {
		case agentbox.Conflict, agentbox.NotFound:
			progress.Note(gone.Error())
		default:
			if gone != nil {
				return out, gone
			}
			out = append(out, one)
		}
	}
	return out, err
}
