package snapshot

import (
	"context"

	"agentbox/agentbox/workspace"
)

// Pull brings kept work into a checkout as a branch and changes nothing else there. An existing
// branch moves only if no commit is lost: forward, or from where an earlier Pull of the same box
// left it, which the ref memory records. branch is without refs/heads/. Errors: Invalid for a
// bad branch name, Conflict for a branch that would lose commits.
func Pull(ctx context.Context, kept Kept, repo workspace.Repo, branch, memory string) error {
	m := mirror{kept.Mirror}
	if err := workspace.CheckBranch(ctx, repo, branch); err != nil {
		return err
	}
	// Copy the objects first: a branch must never name a missing commit.
	if err := m.export(ctx, repo, kept.Commit, kept.Base, ""); err != nil {
		return err
	}
	return workspace.MoveBranch(ctx, repo, branch, kept.Commit, memory)
}

// PulledRef returns the ref that records, in a checkout, what was last pulled from a box. box is
// the box's id.
func PulledRef(box string) string { return namespace + "pulled/" + box }
