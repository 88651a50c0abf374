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

// nativeTarget runs jobs on the machine itself, in the directory dir, with env added to our own
// environment.
type nativeTarget struct {
	dir string
	env []string
}

// run runs a script with sh, for at most workLimit, and returns the milliseconds from the start of
// the shell to its end. For a script that fails it returns them too; the error has its last line of
// output.
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

// lastLine returns the last line of a program's output, which usually has the reason of a failure.
func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// workBox runs jobs in a box.
type workBox struct {
	installation *installation
	name         string
	kind         agentbox.Isolation
	accel        string
	// image is the image of the box, for a bare container to compare with.
	image agentbox.Digest
}

// run runs a command in the running box, and returns the milliseconds from the start of the command
// line to its end.
func (b workBox) run(ctx context.Context, script string) (float64, error) {
	return b.installation.timed(ctx, workLimit, b.installation.home.Dir, "exec", b.name, "--", "sh", "-c", script)
}

// environment returns the environment of its commands, as NAME=value.
func (b workBox) environment(ctx context.Context) ([]string, error) {
	out, err := b.installation.do(ctx, b.installation.home.Dir, "exec", b.name, "--", "env", "-0")
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), err
}
