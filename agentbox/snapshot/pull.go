package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// Pull brings kept work into a checkout as a branch, which it returns, and changes nothing else
// there. An existing branch moves only if no commit is lost: forward, or from where an earlier Pull
// of the same box left it, which the ref memory records. branch is without refs/heads/; "" is
// agentbox/NAME or, if that is there and must not move, the first of agentbox/NAME-2, -3, ... that
// is not there or may move. An earlier box with the same name may have left such branches. Errors:
// Invalid for a bad branch name, Conflict for a branch that would lose commits.
func Pull(ctx context.Context, kept Kept, repo workspace.Repo, branch, name, memory string) (string, error) {
	first := cmp.Or(branch, "agentbox/"+name)
	if err := workspace.CheckBranch(ctx, repo, first); err != nil {
		return first, err
	}
	// Copy the objects first: a branch must never name a missing commit.
	if err := (mirror{kept.Mirror}).export(ctx, repo, kept.Commit, kept.Base, ""); err != nil {
		return first, err
	}
	to := first
	for n := 2; ; n++ {
		err := workspace.MoveBranch(ctx, repo, to, kept.Commit, memory)
		if branch != "" || agentbox.CodeOf(err) != agentbox.Conflict {
			return to, err
		}
		// If there is no such branch, another name does not help.
		if taken, hasErr := workspace.HasBranch(ctx, repo, to); !taken {
			return to, errors.Join(err, hasErr)
		}
		to = fmt.Sprintf("%s-%d", first, n)
	}
}

// PulledRef returns the ref that records, in a checkout, what was last pulled from a box. box is
// the box's id.
func PulledRef(box string) string { return namespace + "pulled/" + box }
