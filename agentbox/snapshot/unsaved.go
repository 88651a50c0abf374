package snapshot

import (
	"bufio"
	"context"

	"agentbox/agentbox/workspace"
)

// Loss is what would be lost with a box. Names and titles come from the box, as its git wrote them.
type Loss struct {
	Commits []workspace.Commit // each once, the newest of a repository first
	Files   []string           // neither committed, nor pulled, nor the same in the checkout
	Missing []string           // what could not be looked at, and why
}

// Unsaved says what a box has and the host lacks: the same as Keep would keep, but for what was
// pulled, which the ref memory of the checkout records (Pull). It writes nothing on this host. If git
// in the box cannot say what is there, Missing says so. Of the Request it needs no Mirror. Errors are
// those of Keep.
func Unsaved(ctx context.Context, g Guest, req Request, memory string) (Loss, error) {
	k, ctx, cancel := newKeepRun(ctx, g, req)
	defer cancel()
	if repo, err := workspace.Describe(ctx, req.Checkout); err == nil {
		k.repo = &repo
	} else {
		k.req.Base = "" // what it began with is gone, too
	}
	var f facts
	cmd := k.question()
	cmd.Env["LIST"] = "1"
	err := ask(ctx, g, cmd, func(ctx context.Context, in *bufio.Reader, answer func(string)) (err error) {
		if f, err = readFacts(in); err != nil {
			return invalidAnswerError(err)
		}
		return nil
	})
	if err != nil {
		return Loss{}, k.explain(ctx, err)
	}
	if k.unchanged(ctx, f) {
		return Loss{}, nil
	}
	if f.failed != "" {
		return Loss{Missing: append(f.missing, "what was done in the workspace: "+f.failed)}, nil
	}
	return k.loss(ctx, f, memory)
}

// loss compares what a box has with the checkout.
func (k *keepRun) loss(ctx context.Context, f facts, memory string) (loss Loss, err error) {
	if err := f.findOwn(ctx, k.repo, k.req.Base); err != nil {
		return Loss{}, err
	}
	loss.Missing, loss.Files = f.missing, workspace.Paths(".", f.trees[0].changed)
	if k.repo != nil {
		if loss.Files, err = workspace.Unsaved(ctx, *k.repo, f.trees[0].changed, memory); err != nil {
			return Loss{}, err
		}
	}
	seen := map[string]bool{}
	for _, c := range f.commits {
		if !seen[c.ID] {
			loss.Commits = append(loss.Commits, c.Commit)
		}
		seen[c.ID] = true
	}
	for _, b := range f.own {
		if b.tree != nil {
			loss.Files = append(loss.Files, workspace.Paths(b.path, b.tree.changed)...)
		}
	}
	return loss, nil
}
