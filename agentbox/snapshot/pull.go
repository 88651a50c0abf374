package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// Pull brings kept work into a checkout as branches, and changes nothing else there. It returns the
// branch of the workspace itself, "" if only others were kept, and the others with theirs. An
// existing branch moves only if no commit is lost: forward, or from where an earlier Pull of the same
// box left it, which the ref memory records. branch is without refs/heads/; "" is agentbox/NAME or, if
// that is there and must not move, the first of agentbox/NAME-2, -3, ... that is not there or may
// move. An earlier box with the same name may have left such branches. The others are called after
// it: BRANCH+OTHER. Errors: Invalid for a bad branch name, Conflict for a branch that would lose
// commits.
func Pull(ctx context.Context, kept Kept, repo workspace.Repo, branch, name, memory string) (string, []agentbox.OtherWork, error) {
	first := cmp.Or(branch, "agentbox/"+name)
	if err := workspace.CheckBranch(ctx, repo, first); err != nil {
		return first, nil, err
	}
	p := pull{ctx, mirror{kept.Mirror}, repo, kept.Base}
	var err error
	to, others := "", kept.Others()
	if kept.Commit != kept.Base {
		if to, err = p.bring(kept.Commit, first, memory, branch == ""); err != nil {
			return to, nil, err
		}
	}
	for i := range others {
		other := "+" + refName(others[i])
		if others[i].Branch, err = p.bring(others[i].Commit, cmp.Or(to, first)+other, memory+other, true); err != nil {
			return to, others, err
		}
	}
	return to, others, nil
}

// pull is one run of Pull.
type pull struct {
	ctx  context.Context
	from mirror
	repo workspace.Repo
	base string
}

// bring makes or moves the branch first, or one like it with another number.
func (p pull) bring(commit, first, memory string, another bool) (string, error) {
	// Copy the objects first: a branch must never name a missing commit.
	if err := p.from.export(p.ctx, p.repo, commit, p.base, ""); err != nil {
		return first, err
	}
	to := first
	for n := 2; ; n++ {
		err := workspace.MoveBranch(p.ctx, p.repo, to, commit, memory)
		if !another || agentbox.CodeOf(err) != agentbox.Conflict {
			return to, err
		}
		// If there is no such branch, another name does not help.
		if taken, hasErr := workspace.HasBranch(p.ctx, p.repo, to); !taken {
			return to, errors.Join(err, hasErr)
		}
		to = fmt.Sprintf("%s-%d", first, n)
	}
}

// unusual matches what names of branches made from a box's names do without: everything that git
// refuses in them, and a slash, since a branch cannot be below another one.
var unusual = agentbox.Pattern(`[^A-Za-z0-9_]+`)

// refName returns a part of a branch's name for other work: its place, and its own name where the
// place does not end in that.
func refName(o agentbox.OtherWork) string {
	name := strings.TrimPrefix(o.Name, "refs/")
	if path.Base(o.Path) == name {
		name = ""
	}
	text := strings.Trim(unusual().ReplaceAllString(o.Path+" "+name, "-"), "-")
	return cmp.Or(text[:min(len(text), 60)], "other")
}

// PulledRef returns the ref that records, in a checkout, what was last pulled from a box. box is
// the box's id.
func PulledRef(box string) string { return namespace + "pulled/" + box }
