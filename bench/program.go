package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
)

// Program runs agentbox the way a user does. The zero Env adds nothing.
type Program struct {
	// Path is absolute: it is run in other directories.
	Path string
	Env  []string // added to ours
}

// killAfter is how long a process that was told to go may take: long enough to end a machine in
// order.
const killAfter = 20 * time.Second

// Run runs one command line in dir to its end, and gives its output and the time from before its
// start until after its end. When ctx ends first, so does the process. A command that fails is an
// error with what it said of itself and its hint; stdout is given then, too.
func (p Program) Run(ctx context.Context, dir string, args ...string) (stdout []byte, took time.Duration, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), p.Env...), &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	// Ctrl-C is for us: we end what we started in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := time.Now()
	err = cmd.Run()
	took = time.Since(start)
	if err == nil {
		return out.Bytes(), took, nil
	}
	// What it printed before it failed may be an answer all the same.
	what := "agentbox " + strings.Join(args, " ")
	if ctx.Err() != nil {
		return out.Bytes(), took, fmt.Errorf("%s: not done after %s: %w", what, took.Round(time.Millisecond), context.Cause(ctx))
	}
	said, hint := reason(errs.String())
	if said == "" {
		said = err.Error()
	}
	return out.Bytes(), took, &agentbox.Error{Code: agentbox.Internal, Message: what + ": " + said, Hint: hint}
}

// reason is the line a failed command explains itself with, not the progress before it, and its
// hint.
func reason(stderr string) (said, hint string) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "agentbox: "); ok {
			said, hint = text, ""
		} else if text, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = text
		}
	}
	if said == "" {
		said = strings.TrimSpace(stderr[strings.LastIndexByte(strings.TrimSpace(stderr), '\n')+1:])
	}
	return said, hint
}
