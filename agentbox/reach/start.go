package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/home"
)

// startTimeout bounds the start of a daemon, which first takes over the boxes of its predecessor.
// It also bounds the end of one, which waits for what it has begun to make.
const startTimeout = time.Minute

// start starts a daemon in the background and waits until one answers: ours, or one that
// another command started at the same time. A daemon that holds the home may also be shutting down,
// so it retries until one answers. If several start at once, a lock that the daemons take decides
// which one gets the home.
func (h Here) start(ctx context.Context, client *api.Client) error {
	if err := h.home.Create(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, agentbox.Errorf(agentbox.Timeout,
		"the daemon does not answer within %s", startTimeout).WithHint("agentbox daemon log shows what it does"))
	defer cancel()
	for {
		ours, died, err := h.spawn()
		if err != nil {
			return err
		}
		if err := h.await(ctx, client, ours, died); !errors.Is(err, errAnotherRuns) {
			return err
		}
	}
}

// spawn starts a daemon that outlives us: in its own session, in /, with none of our files
// open. Its output goes to the home's log. It returns the daemon's process ID. If the daemon ends
// while we watch, died receives the reason.
func (h Here) spawn() (pid int, died <-chan error, err error) {
	program, args, err := h.Program("daemon")
	if err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(h.home.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, agentbox.Errorf(agentbox.Missing, "cannot write the daemon's log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: program, Args: args}
	cmd.Dir = "/"
	// Our own setting may be relative to the current directory.
	cmd.Env = append(os.Environ(), home.EnvDir+"="+h.home.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	// An interrupt or a hangup of our terminal must not reach the daemon.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	inheritNoFiles()
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the daemon, or with us
	return cmd.Process.Pid, ended, nil
}

// inheritNoFiles keeps files that our caller left open from being inherited by the programs that we
// start. Otherwise the lock of a shell, for example, would be held as long as the daemon lives.
func inheritNoFiles() {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // cannot list them; the worst case is a lock that is held too long
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// errAnotherRuns means that another daemon holds the home and has not answered for a while.
var errAnotherRuns = errors.New("another daemon holds the home")

// anotherWait is how long we wait for a daemon that is not ours to answer before we try to replace
// it.
const anotherWait = 200 * time.Millisecond

// await returns when a daemon answers, ours or another. If it is another, ours has ended: it
// would take the home if the other one was stopped before ours had found it. It returns
// errAnotherRuns if the one that we started found another in the home, which has then not answered
// for anotherWait. If ours ends in any other way, the error is the last line of its log.
func (h Here) await(ctx context.Context, client *api.Client, ours int, died <-chan error) error {
	var another <-chan time.Time
	answered := false
	for {
		if st, err := api.Call(ctx, client, api.Status, api.None{}, nil); err == nil {
			if answered = true; st.PID == ours || died == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-another:
			return errAnotherRuns
		case err := <-died:
			var status *exec.ExitError
			if !errors.As(err, &status) || status.ExitCode() != api.ExitDaemonRuns {
				reason, hint := h.lastLogLine()
				return agentbox.Errorf(agentbox.Unavailable, "the daemon does not start: %s", reason).WithHint("%s", cmp.Or(hint, "agentbox daemon log shows what it does"))
			}
			if answered {
				return nil
			}
			// It is somebody else's daemon: give it a moment to answer, but no longer.
			died, another = nil, time.After(anotherWait)
		// A call that finds no socket fails at once, so this sets the pace of the loop. A daemon
		// takes some tens of milliseconds to start.
		case <-time.After(3 * time.Millisecond):
		}
	}
}

// maxLogLine bounds what lastLogLine reads, in bytes. A log grows for as long as its home exists.
const maxLogLine = 4 << 10

// lastLogLine returns the last line of the daemon's log, or its last maxLogLine bytes, and the hint that may
// follow it. It has the reason of a failed start.
func (h Here) lastLogLine() (line, hint string) {
	f, err := os.Open(h.home.Log())
	if err != nil {
		return err.Error(), ""
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error(), ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, size-maxLogLine), maxLogLine))
	if err != nil {
		return err.Error(), ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := len(lines) - 1; last > 0 && strings.HasPrefix(lines[last], "hint: ") {
		hint, lines = strings.TrimPrefix(lines[last], "hint: "), lines[:last]
	}
	return strings.TrimPrefix(lines[len(lines)-1], "agentbox: "), hint
}

// stop asks a daemon to exit and waits until its process has ended, so that the next one
// finds the home's lock free. Boxes go on.
func (h Here) stop(ctx context.Context, client *api.Client, pid int) error {
	if _, err := api.Call(ctx, client, api.Shutdown, api.None{}, nil); err != nil {
		return err
	}
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid) {
			return nil
		}
		if !background.Sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
	return agentbox.Errorf(agentbox.Timeout, "the daemon (process %d) does not stop", pid)
}

// isZombie reports whether a process has ended but was not reaped. That happens if a test or a
// container's first process started it. Signal 0 still succeeds for such a process.
func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	return ok && strings.HasPrefix(rest, "Z")
}
