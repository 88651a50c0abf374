package workspace

import (
	"context"
	"errors"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// CheckBranch fails with code Invalid unless branch, which is without refs/heads/, is a valid
// branch name.
func CheckBranch(ctx context.Context, repo Repo, branch string) error {
	_, valid, err := answer(ctx, repo.Root, "check-ref-format", "refs/heads/"+branch)
	if err == nil && (!valid || strings.HasPrefix(branch, "-")) {
		return agentbox.Errorf(agentbox.Invalid, "%q cannot be the name of a branch", branch).WithHint("choose another: --branch NAME")
	}
	return err
}

// MoveBranch points a branch and the ref memory at a commit that the checkout has. It is how
// pull updates a branch without losing work. memory is a full ref name and records the commit of
// the last pull: a branch still at that commit has nothing of the user's own. An existing branch
// moves only if it is still there, or if commit descends from it. A branch that is checked out
// anywhere does not move. Errors have code Conflict and suggest another name.
func MoveBranch(ctx context.Context, repo Repo, branch, commit, memory string) error {
	was, err := resolve(ctx, repo, "refs/heads/"+branch)
	if err != nil {
		return err
	}
	// Nothing is lost if an earlier pull put the branch here, or if the commit contains all of
	// it.
	if was != "" && was != commit {
		before, err := resolve(ctx, repo, memory)
		if err != nil {
			return err
		}
		forward, err := isAncestor(ctx, repo, was, commit)
		if err != nil {
			return err
		}
		if was != before && !forward {
			return agentbox.Errorf(agentbox.Conflict, "the branch %s has commits that the box does not have", branch).
				WithHint("bring the box's work as another branch: --branch NAME, then git merge NAME")
		}
	}
	if was != commit {
		_, err = ask(ctx, repo.Root, "branch", "--no-track", "--force", branch, commit)
		if failed, ok := errors.AsType[*git.Error](err); ok {
			return agentbox.Errorf(agentbox.Conflict, "the branch %s stays as it is: %s", branch, failed.Error()).WithHint("choose another name: --branch NAME")
		}
	}
	if err != nil {
		return err
	}
	return SetRef(ctx, repo, memory, commit)
}

// HasBranch reports whether the repository has the branch. branch is without refs/heads/.
func HasBranch(ctx context.Context, repo Repo, branch string) (bool, error) {
	commit, err := resolve(ctx, repo, "refs/heads/"+branch)
	return commit != "", err
}

// resolve returns the object name that ref points to, or "" if there is no such ref.
func resolve(ctx context.Context, repo Repo, ref string) (string, error) {
	out, _, err := answer(ctx, repo.Root, "rev-parse", "--quiet", "--verify", ref)
	return strings.TrimSpace(out), err
}

func isAncestor(ctx context.Context, repo Repo, from, to string) (bool, error) {
	_, yes, err := answer(ctx, repo.Root, "merge-base", "--is-ancestor", from, to)
	return yes, err
}
