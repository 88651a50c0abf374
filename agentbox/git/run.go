package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// Call is one run of git. Args come after ours, the verb first. A name in them that a box chose
// needs "--" before it, or a pattern that it passed.
type Call struct {
	Dir      string // where it runs
	Args     []string
	Env      []string // besides what every git gets
	Stdin    io.Reader
	Stdout   io.Writer // gets what git prints; nil returns it
	Personal bool      // the user's and the system's configuration count, as they must for a checkout of the user's
}

// Error is a git command that failed.
type Error struct {
	Status int // exit status; -1 when git was killed
	Stderr string
}

// Error is the first line of what git said, without its prefix. It may hold what a repository chose
// to say: agentbox.Printable is for the caller.
func (e *Error) Error() string {
	line, _, _ := strings.Cut(strings.TrimSpace(e.Stderr), "\n")
	return strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
}

// waitDelay is how long something that git started may hold git's output after its end. It begins
// for every git, so a machine that is busy must get through with reading what a git wrote.
const waitDelay = 30 * time.Second

// maxComplaints bounds what is kept of what git says on standard error.
const maxComplaints = 1 << 20

// Run runs git and returns what it printed and what it complained about. A failure of the command
// itself is an *Error, the end of ctx is ctx's, anything else is an *agentbox.Error. It may be
// called at once. Output that nobody bounded is held in memory: where a repository decides how much
// that is, Call.Stdout is for a bounded writer.
func Run(ctx context.Context, c Call) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(ctx, "git", append(options(), c.Args...)...)
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Env = c.Dir, append(environment(c.Personal), c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &out, &bounded.Head{W: &complaints, Left: maxComplaints}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.WaitDelay = waitDelay
	if err = cmd.Start(); err == nil {
		limitMemory(cmd.Process.Pid)
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), complaints.String(), nil
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case errors.As(err, &exit):
		return out.Bytes(), complaints.String(), &Error{exit.ExitCode(), complaints.String()}
	case errors.Is(err, exec.ErrNotFound):
		return nil, "", agentbox.Errorf(agentbox.Missing, "git is not installed").WithHint("install it: apt-get install git")
	}
	return nil, "", agentbox.Errorf(agentbox.Invalid, "cannot run git in %s: %w", c.Dir, err)
}
