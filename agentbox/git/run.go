package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// Call is one run of git. Args follow our own options, starting with the subcommand. If a box chose
// one of the names in Args, it needs "--" before it or must have matched a pattern.
type Call struct {
	Dir        string // working directory
	Args       []string
	Env        []string // added to what every git gets
	Stdin      io.Reader
	Stdout     io.Writer // receives standard output; if nil, Run returns it
	UserConfig bool      // use the user's and the system's configuration, as the user's own checkouts require
}

// Error is a git command that failed.
type Error struct {
	Status  int // exit status; -1 if git was killed
	Stderr  string
	Program string // path of git: PATH is that of this process, and may differ from the user's
}

// maxError bounds what Error returns, in bytes.
const maxError = 500

// Error returns git's standard error in one line, without prefixes and advice, and at most maxError
// bytes of it. A repository may control parts of it, so the caller must apply agentbox.Printable
// before it is displayed.
func (e *Error) Error() string {
	text := ""
	for line := range strings.Lines(e.Stderr) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "fatal: "), "error: ")
		switch {
		case line == "" || strings.HasPrefix(line, "hint:"):
		case text == "":
			text = line
		case strings.HasSuffix(text, ":"): // a list, such as that of unknown extensions
			text += " " + line
		default:
			text += "; " + line
		}
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// waitDelay is how long git may take to end once it was told to, and how long a child of git may
// hold git's output open after git has exited. The time starts when any git exits, so it must
// suffice for a busy machine to read git's remaining output.
const waitDelay = 30 * time.Second

// maxComplaints bounds how much of git's standard error is kept, in bytes.
const maxComplaints = 1 << 20

// Run runs git and returns its standard output and standard error. If the command itself fails, err
// is an *Error. If ctx ends, err is the error of ctx. All other errors are *agentbox.Error. Run is
// safe for concurrent use.
//
// Output is held in memory without a bound. If a repository decides how much there is, set
// Call.Stdout to a bounded writer.
func Run(ctx context.Context, c Call) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(ctx, "git", append(options(), c.Args...)...)
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Env = c.Dir, append(environment(c.UserConfig), c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &out, &bounded.Head{W: &complaints, Remaining: maxComplaints}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	// Unless it is killed, git removes its locks and ends its children.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
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
		return out.Bytes(), complaints.String(), &Error{exit.ExitCode(), complaints.String(), cmd.Path}
	case errors.Is(err, exec.ErrNotFound):
		return nil, "", agentbox.Errorf(agentbox.Missing, "git is not installed").WithHint("install it: apt-get install git")
	}
	return nil, "", agentbox.Errorf(agentbox.Invalid, "cannot run git in %s: %w", c.Dir, err)
}
