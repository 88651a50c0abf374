package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox/bounded"
)

// commandTime bounds a command: it may have to ask another machine, never a person.
const commandTime = 20 * time.Second

// run asks a command as git asks its credential helpers: the question on its input, `get` as its
// last argument, and password=VALUE among the lines of its answer. Without such a line, the output
// is the value.
//
// The line is the user's own, from secret set, and runs with the rights and the environment of the
// supervisor. Its standard error is discarded.
func run(ctx context.Context, line, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line+` "$@"`, "sh", "get")
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(fmt.Sprintf("protocol=https\nhost=%s\n\n", host))
	// It and whatever it starts end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	tooMuch := errors.New("it prints too much")
	stdout := &bounded.LimitedWriter{W: &out, Remaining: 4 * maxValue, Err: tooMuch}
	cmd.Stdout = stdout
	switch err := cmd.Run(); {
	case err == nil:
		return password(out.String()), nil
	case stdout.Remaining == 0:
		return "", tooMuch
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not answer within %s", commandTime)
	default:
		return "", fmt.Errorf("it failed: %w", err) // what it printed may be the value
	}
}

// password extracts the value from an answer, "" when a helper has none. All other output counts as
// a value, so that `cat FILE` or `pass show NAME` work.
func password(answer string) string {
	helper := false
	for l := range strings.Lines(answer) {
		key, value, ok := strings.Cut(strings.TrimRight(l, "\r\n"), "=")
		if ok && key == "password" {
			return value
		}
		helper = helper || ok && (key == "protocol" || key == "host" || key == "username" || key == "quit")
	}
	if helper {
		return "" // it answered as a helper, and has no password
	}
	return answer
}
