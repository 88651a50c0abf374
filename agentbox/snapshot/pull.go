package snapshot

import (
	"context"

	"agentbox/agentbox/workspace"
)

// Pull brings what was kept into a checkout as a branch of it, and changes nothing else there. A
// branch that is there moves only where nothing is lost: forward, or from where an earlier Pull of
// the same box (memory is its ref) put it. branch is without refs/heads/. Invalid for no name of a
// branch, Conflict for one that would lose commits.
func Pull(ctx context.Context, kept Kept, repo workspace.Repo, branch, memory string) error {
	m := mirror{kept.Mirror}
	if err := workspace.CheckBranch(ctx, repo, branch); err != nil {
		return err
	}
	// The objects first: a branch must never name what is not there.
	if err := m.export(ctx, repo, kept.Commit, kept.Base, ""); err != nil {
		return err
	}
	return workspace.MoveBranch(ctx, repo, branch, kept.Commit, memory)
}

// PulledRef remembers in a checkout what was pulled from a box last. box is the box's id.
func PulledRef(box string) string { return namespace + "pulled/" + box }
