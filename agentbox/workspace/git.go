package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"agentbox/agentbox"
)

// dropped are the variables that point git at another repository than the directory it is run in; they are set when
// agentbox is started from a hook or an alias.
var dropped = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CONFIG", "GIT_CEILING_DIRECTORIES", "GIT_LITERAL_PATHSPECS",
	"GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_TRACE", "LC_ALL", "LANGUAGE"}

// gitEnv asks git for English, for no prompt, and to leave the user's index alone.
func gitEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		keep := true
		for _, d := range dropped {
			keep = keep && name != d
		}
		if keep {
			env = append(env, kv)
		}
	}
	return append(env, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
}

// gitError is a git command that failed.
type gitError struct {
	status int // exit status; -1 when git was killed
	stderr string
}

func (e *gitError) Error() string {
	line, _, _ := strings.Cut(strings.TrimSpace(e.stderr), "\n")
	return strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
}

// git runs git in dir and returns what it printed and what it complained about. A failure of the command itself is a
// *gitError, anything else an *agentbox.Error.
func git(ctx context.Context, dir string, args ...string) (stdout []byte, stderr string, err error) {
	// A nested repository's configuration is content like any other: it must not name a program that runs here.
	return run(ctx, dir, "git", append([]string{"-c", "core.fsmonitor=false"}, args...)...)
}

// script runs lines of shell in dir, with git as we run it.
func script(ctx context.Context, dir, lines string) ([]byte, error) {
	out, _, err := run(ctx, dir, "sh", "-c", "git() { command git -c core.fsmonitor=false \"$@\"; }\n"+lines)
	if err != nil {
		return nil, explain(err, dir)
	}
	return out, nil
}

// waitDelay is how long a filter or monitor that git started may hold git's output after its end. It begins for every
// git, so a machine that is busy must get through with reading what a git wrote.
const waitDelay = 30 * time.Second

// run runs git, or a shell that runs git.
func run(ctx context.Context, dir, program string, args ...string) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, gitEnv(), &out, &complaints
	cmd.WaitDelay = waitDelay
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), complaints.String(), nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case errors.As(err, &exit):
		return out.Bytes(), complaints.String(), &gitError{exit.ExitCode(), complaints.String()}
	case errors.Is(err, exec.ErrNotFound):
		return nil, "", agentbox.Errorf(agentbox.Missing, "git is not installed").WithHint("install it: apt-get install git")
	}
	return nil, "", agentbox.Errorf(agentbox.Invalid, "cannot run git in %s: %w", dir, err)
}

// explain turns a failure of git into what a user can act on.
func explain(err error, dir string) error {
	var failed *gitError
	if !errors.As(err, &failed) {
		return err
	}
	switch msg := failed.stderr; {
	case strings.Contains(msg, "not a git repository"):
		return agentbox.Errorf(agentbox.Invalid, "%s is not in a git repository", dir).WithHint("run `git init` there first")
	case strings.Contains(msg, "dubious ownership"):
		return agentbox.Errorf(agentbox.Invalid, "git does not trust the repository at %s: it belongs to another user", dir).
			WithHint("if you do: git config --global --add safe.directory %s", dir)
	}
	return agentbox.Errorf(agentbox.Invalid, "git cannot read the repository at %s: %w", dir, failed)
}
