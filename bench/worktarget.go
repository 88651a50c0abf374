package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"agentbox/agentbox"
)

// nativeTarget does jobs on the machine itself, in the directory dir, with env besides our own
// environment.
type nativeTarget struct {
	dir string
	env []string
}

// run runs a script with sh, for workLimit at most, and gives the milliseconds: from the start of
// the shell to its end. A script that fails has a time, too, and an error with what it said last.
func (s nativeTarget) run(ctx context.Context, script string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, workLimit, fmt.Errorf("the limit is %s", workLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, append(os.Environ(), s.env...), killAfter
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return milliseconds(took), fmt.Errorf("%s: %w: %s", script, err, lastLine(out))
	}
	return milliseconds(took), nil
}

// lastLine is what a program said last: usually why it failed.
func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// workBox does them in a box.
type workBox struct {
	installation *installation
	name         string
	kind         agentbox.Isolation
	accel        string
	// image is what the box runs, for a bare container beside it.
	image agentbox.Digest
}

// run is a command in a box that runs, from the start of the command line to its end.
func (b workBox) run(ctx context.Context, script string) (float64, error) {
	return b.installation.timed(ctx, workLimit, b.installation.home.Dir, "exec", b.name, "--", "sh", "-c", script)
}

// environment is what its commands have, as NAME=value.
func (b workBox) environment(ctx context.Context) ([]string, error) {
	out, err := b.installation.do(ctx, b.installation.home.Dir, "exec", b.name, "--", "env", "-0")
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), err
}
