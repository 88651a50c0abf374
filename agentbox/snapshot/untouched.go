package snapshot

import (
	"bufio"
	"context"

	"agentbox/agentbox/workspace"
)

// untouched reports whether the box still has exactly what it began with, by a look of its own program
// (program), which costs less than all that a full look makes ready here. It returns false when in doubt,
// which leads to a full look.
func (k *keepRun) untouched(ctx context.Context) bool {
	cmd := k.question()
	cmd.Argv, cmd.Env["REST"] = []string{program, "false"}, ""
	var f facts
	err := askOnce(ctx, k.guest, cmd, func(ctx context.Context, in *bufio.Reader, _ func(string)) (err error) {
		f, err = readFacts(in)
		return err
	})
	return err == nil && k.unchanged(ctx, f)
}

// unchanged reports whether facts have nothing but what the box began with: the commit, all files, and
// commits that the checkout keeps, too. A box that lies loses only its own work.
func (k *keepRun) unchanged(ctx context.Context, f facts) bool {
	began, err := readBegin(k.req.Baseline)
	if err != nil || k.req.Base == "" || k.req.Checkout == "" || f.failed != "" || len(f.trees) != 1 || len(f.missing)+len(f.raw)+len(f.stays) > 0 {
		return false
	}
	same := f.trees[0].top == k.req.Base
	if began != "" {
		tree, _, err := readTree(k.req.Baseline)
		same = err == nil && f.files == tree && f.trees[0].head == k.req.Base
	}
	var others []string
	for _, b := range f.refs {
		same = same && b.path == "."
		others = append(others, b.Commit)
	}
	if !same || len(others) == 0 {
		return same
	}
	repo, err := workspace.Describe(ctx, k.req.Checkout)
	if err != nil {
		return false
	}
	k.repo = &repo
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return false
	}
	defer done()
	unknown, err := workspace.Unkept(ctx, view, repo, others, k.req.Base)
	return err == nil && len(unknown) == 0
}
