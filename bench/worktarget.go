package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"agentbox/agentbox"
)

// nativeTarget runs jobs on the machine itself, in dir, with env added to our environment.
type nativeTarget struct {
	dir string
	env []string
}

// Run runs a script with sh, for at most WorkLimit, and returns the milliseconds from the start of
// the shell to its end. For a script that fails it returns them too; the error has its last line of
// output.
func (n nativeTarget) Run(ctx context.Context, script string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, WorkLimit, fmt.Errorf("the limit is %s", WorkLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = n.dir, append(os.Environ(), n.env...), KillAfter
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return InMilliseconds(took), fmt.Errorf("%s: %w: %s", script, err, LastLine(out))
	}
	return InMilliseconds(took), nil
}

// LastLine returns the last line of a program's output, which usually has the reason of a failure.
func LastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// WorkBox runs jobs in a box.
type WorkBox struct {
	Installation *Installation
	Name         string
	Kind         agentbox.Isolation
	Accel        string
	// Image is the image of the box, for another runtime to compare with.
	Image agentbox.Digest
}

// Run runs a command in the running box, and returns the milliseconds from the start of the command
// line to its end.
func (w WorkBox) Run(ctx context.Context, script string) (float64, error) {
	return w.Installation.Timed(ctx, WorkLimit, w.Installation.Home.Dir, "exec", w.Name, "--", "sh", "-c", script)
}
