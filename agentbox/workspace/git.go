package workspace

import (
	"context"
	"errors"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// ask runs git over the checkout of a person, whose configuration counts, and returns what it
// printed. Only what reads refs and configuration is asked this way; files and objects are looked
// at through a git.View. A git that ended with a status other than 0 is a *git.Error.
func ask(ctx context.Context, dir string, args ...string) ([]byte, error) {
	out, _, err := git.Run(ctx, git.Call{Dir: dir, Args: args, Personal: true})
	return out, err
}

// answer is ask for a question that may be answered by no, which git says with status 1.
func answer(ctx context.Context, dir string, args ...string) (out string, yes bool, err error) {
	text, err := ask(ctx, dir, args...)
	if failed, ok := errors.AsType[*git.Error](err); ok && failed.Status == 1 {
		return "", false, nil
	}
	return string(text), err == nil, explain(err, dir)
}

// explain turns a failure of git into what a user can act on. An error that is not git's is
// returned as it is, and so is nil.
func explain(err error, dir string) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	switch msg := failed.Stderr; {
	case strings.Contains(msg, "not a git repository"):
		return agentbox.Errorf(agentbox.Invalid, "%s is not in a git repository", dir).WithHint("run `git init` there first")
	case strings.Contains(msg, "dubious ownership"):
		return agentbox.Errorf(agentbox.Invalid, "git does not trust the repository at %s: it belongs to another user", dir).
			WithHint("if you do: git config --global --add safe.directory %s", dir)
	}
	return agentbox.Errorf(agentbox.Invalid, "git cannot read the repository at %s: %w", dir, failed)
}
