package workspace

import (
	"context"
	"errors"

	"agentbox/agentbox/git"
)

// HasBranch tells whether the repository has a branch of that name. branch is without refs/heads/.
func HasBranch(ctx context.Context, repo Repo, branch string) (bool, error) {
	_, err := ask(ctx, repo.Root, "show-ref", "--verify", "--quiet", "refs/heads/"+branch)
	var failed *git.Error
	if errors.As(err, &failed) && failed.Status == 1 {
		return false, nil
	}
	return err == nil, err
}
