package workspace

import (
	"context"
	"errors"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// CheckBranch fails for what cannot be the name of a branch. branch is without refs/heads/. The
// error has code Invalid.
func CheckBranch(ctx context.Context, repo Repo, branch string) error {
	_, valid, err := answer(ctx, repo.Root, "check-ref-format", "refs/heads/"+branch)
	if err == nil && (!valid || strings.HasPrefix(branch, "-")) {
		return agentbox.Errorf(agentbox.Invalid, "%q cannot be the name of a branch", branch).WithHint("choose another: --branch NAME")
	}
	return err
}

// MoveBranch makes a branch name a commit that the checkout has, and the ref memory, too. A branch
// that exists has to lead to the commit already or be where memory says that it was put; one that
// is checked out anywhere stays. It is how pull brings work to a branch without losing any: memory
// names the commit of the last pull, so a branch that still is there has nothing of the user's own.
// Errors have code Conflict, with another name as the way out. memory is a full ref name.
func MoveBranch(ctx context.Context, repo Repo, branch, commit, memory string) error {
	was, err := resolve(ctx, repo, "refs/heads/"+branch)
	if err != nil {
		return err
	}
	// Two ways in which nothing is lost: an earlier pull put it there, or all that it has leads to
	// the commit.
	if was != "" && was != commit {
		before, err := resolve(ctx, repo, memory)
		if err != nil {
			return err
		}
		forward, err := leadsTo(ctx, repo, was, commit)
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

// HasBranch tells whether the repository has a branch of that name. branch is without refs/heads/.
func HasBranch(ctx context.Context, repo Repo, branch string) (bool, error) {
	commit, err := resolve(ctx, repo, "refs/heads/"+branch)
	return commit != "", err
}

// resolve is the commit that a ref names; "" when there is none.
func resolve(ctx context.Context, repo Repo, ref string) (string, error) {
	out, _, err := answer(ctx, repo.Root, "rev-parse", "--quiet", "--verify", ref)
	return strings.TrimSpace(out), err
}

// leadsTo tells whether one commit is an ancestor of another.
func leadsTo(ctx context.Context, repo Repo, from, to string) (bool, error) {
	_, yes, err := answer(ctx, repo.Root, "merge-base", "--is-ancestor", from, to)
	return yes, err
}
