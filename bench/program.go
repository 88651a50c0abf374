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

// Program runs agentbox as a user does. The zero Env adds nothing.
type Program struct {
	// Path is absolute, because it is run in other directories.
	Path string
	Env  []string // added to ours
	// Said gets the standard error of commands that succeed; nil if nobody wants it.
	Said func(stderr string)
	// Quiet is how long a command may say nothing, not even progress, before it is ended; 0 for any time.
	Quiet time.Duration
}

// KillAfter is how long a process may take to end after it was told to: long enough to end a
// machine properly.
const KillAfter = 20 * time.Second

// Run runs one command line in dir to its end. It returns the standard output, and the time from
// before the start of the process until after its end. When ctx ends first, so does the process.
// The error of a failed command has its own message and hint; stdout is returned with it.
func (p Program) Run(ctx context.Context, dir string, args ...string) (stdout []byte, took time.Duration, err error) {
	var out bytes.Buffer
	ctx, end := context.WithCancelCause(ctx)
	errs := heard{quiet: p.Quiet, end: end}
	defer errs.stop()
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), p.Env...), &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = KillAfter
	// Ctrl-C is for us: we end properly what we started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	errs.wait()
	start := time.Now()
	err = cmd.Run()
	took = time.Since(start)
	if err == nil {
		if p.Said != nil {
			p.Said(errs.all.String())
		}
		return out.Bytes(), took, nil
	}
	// The output before a failure may be a valid answer nevertheless.
	what := "agentbox " + strings.Join(args, " ")
	if ctx.Err() != nil {
		return out.Bytes(), took, fmt.Errorf("%s: not done after %s: %w", what, took.Round(time.Millisecond), context.Cause(ctx))
	}
	said, hint := reason(errs.all.String())
	if said == "" {
		said = strings.TrimSuffix(fmt.Sprintf("%v: %s", err, LastLine(out.Bytes())), ": ")
	}
	return out.Bytes(), took, &agentbox.Error{Code: agentbox.Internal, Message: what + ": " + said, Hint: hint}
}

// heard is what a command has said. It ends one that says nothing for too long, with what it said last.
type heard struct {
	all   bytes.Buffer // not embedded: what copies to it would pass Write by
	quiet time.Duration
	end   context.CancelCauseFunc
	timer *time.Timer
}

func (h *heard) Write(b []byte) (int, error) {
	n, err := h.all.Write(b)
	h.wait()
	return n, err
}

// wait begins to wait anew.
func (h *heard) wait() {
	if h.quiet == 0 {
		return
	}
	h.stopTimer()
	last := string(LastLine(h.all.Bytes()))
	h.timer = time.AfterFunc(h.quiet, func() { h.end(fmt.Errorf("nothing new for %s, after %q", h.quiet, last)) })
}

func (h *heard) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

func (h *heard) stop() {
	h.stopTimer()
	h.end(nil)
}

// reason returns the line with which a failed command explains itself, and its hint. It skips the
// progress before it.
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
