package workspace

import (
	"context"
	"errors"
)

// HasBranch tells whether the repository has a branch of that name.
func HasBranch(ctx context.Context, repo Repo, branch string) (bool, error) {
	_, _, err := git(ctx, repo.Root, "show-ref", "--verify", "--quiet", "refs/heads/"+branch)
	var failed *gitError
	if errors.As(err, &failed) && failed.status == 1 {
		return false, nil
	}
	return err == nil, err
}
