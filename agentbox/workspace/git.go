package workspace

import (
	"context"
	"errors"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// ask runs git in a user's checkout, with its configuration in effect, and returns its output.
// Use it only to read refs and configuration; files and objects are read through a git.View. A
// non-zero exit status is a *git.Error.
func ask(ctx context.Context, dir string, args ...string) ([]byte, error) {
	out, _, err := git.Run(ctx, git.Call{Dir: dir, Args: args, UserConfig: true})
	return out, err
}

// answer is ask for a yes-or-no question, where git exits with status 1 for no.
func answer(ctx context.Context, dir string, args ...string) (out string, yes bool, err error) {
	text, err := ask(ctx, dir, args...)
	if failed, ok := errors.AsType[*git.Error](err); ok && failed.Status == 1 {
		return "", false, nil
	}
	return string(text), err == nil, explain(err, dir)
}

// explain turns a failure of git into an error that a user can act on. It returns any other
// error, and nil, unchanged.
func explain(err error, dir string) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	switch msg := failed.Stderr; {
	case strings.Contains(msg, "not a git repository"):
		return agentbox.Errorf(agentbox.Invalid, "%s is not in a git repository", dir).WithHint("run the command in a repository (`git init` makes one), or name a box: agentbox ls lists them")
	case strings.Contains(msg, "dubious ownership"):
		return agentbox.Errorf(agentbox.Invalid, "git does not trust the repository at %s: it belongs to another user", dir).
			WithHint("if you do: git config --global --add safe.directory %s", dir)
	}
	e := agentbox.Errorf(agentbox.Invalid, "%s cannot read the repository at %s: %w", failed.Program, dir, failed)
	if strings.Contains(failed.Stderr, "unknown repository extension") || strings.Contains(failed.Stderr, "repo version") || strings.Contains(failed.Stderr, "unknown ref storage format") {
		return e.WithHint("a newer git made it: put that one first in PATH, then restart the daemon, which keeps its PATH: agentbox daemon stop")
	}
	return e
}
