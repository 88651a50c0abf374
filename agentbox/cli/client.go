package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// startTimeout bounds the start of a daemon, which first takes over the boxes of its predecessor.
// It also bounds the end of one, which waits for what it has begun to make.
const startTimeout = time.Minute

// call calls the daemon, starting it if none runs, and shows progress the way the user asked for.
// If ctx ends, it closes the connection, and the daemon undoes what was half done.
func call[Req, Resp any](ctx context.Context, a *app, e api.Endpoint[Req, Resp], req Req) (Resp, error) {
	client, err := a.daemon(ctx)
	if err != nil {
		var zero Resp
		return zero, err
	}
	defer client.Close()
	p := a.newProgress()
	resp, err := api.Call(ctx, client, e, req, p.event)
	p.close()
	if api.IsUnreachable(err) {
		err = agentbox.Errorf(agentbox.Unavailable, "the daemon ended before it answered: %w", err).
			WithHint("run the command again: the daemon undoes incomplete operations")
	}
	return resp, err
}

// callAcrossRestarts makes a call that waits for a task, without progress. If the daemon is replaced
// meanwhile, the next one takes over the task, so the call is repeated there.
func callAcrossRestarts[Resp any](ctx context.Context, a *app, e api.Endpoint[api.TaskRef, Resp], task agentbox.TaskID) (Resp, error) {
	for {
		client, err := a.daemon(ctx)
		var resp Resp
		if err == nil {
			resp, err = api.Call(ctx, client, e, api.TaskRef{Task: task.String()}, nil)
			client.Close()
		}
		if err == nil || ctx.Err() != nil || agentbox.CodeOf(err) != agentbox.Unavailable {
			return resp, err
		}
		if err := sleep(ctx, redialAfter); err != nil {
			return resp, err
		}
	}
}

// callAndReport makes a call and reports the facts that of makes from its answer: all that most verbs
// do.
func callAndReport[Req, Resp any](ctx context.Context, a *app, e api.Endpoint[Req, Resp], req Req, of func(Resp) facts) error {
	resp, err := call(ctx, a, e, req)
	if err != nil {
		return err
	}
	return a.report(of(resp))
}

// noDaemon reports whether a call failed because no daemon listens at the home's socket: it does not
// exist, or its daemon has died. Other errors, such as a missing permission, say nothing about that.
func noDaemon(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// daemon returns a client of a daemon of exactly this build. The API has no version of its own:
// instead, the first call replaces a daemon of any other build, older or newer. The caller closes
// the client.
func (a *app) daemon(ctx context.Context) (*api.Client, error) {
	client := api.NewClient(a.home.Socket())
	status, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if err == nil && status.Version == buildID() {
		return client, nil
	}
	if err == nil {
		// It is another build. Replacing it does not disturb boxes: their supervisors go on, and
		// the new daemon adopts them.
		if err := a.stopDaemon(ctx, client, status.PID); err != nil {
			return nil, err
		}
	}
	if err := a.startDaemon(ctx, client); err != nil {
		return nil, err
	}
	return client, nil
}

// startDaemon starts a daemon in the background and waits until one answers: ours, or one that
// another command started at the same time. A daemon that holds the home may also be shutting down,
// so it retries until one answers. If several start at once, a lock that the daemons take decides
// which one gets the home.
func (a *app) startDaemon(ctx context.Context, client *api.Client) error {
	if err := a.home.Create(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, agentbox.Errorf(agentbox.Timeout,
		"the daemon does not answer within %s", startTimeout).WithHint("see %s", a.home.Log()))
	defer cancel()
	for {
		ours, died, err := a.spawnDaemon()
		if err != nil {
			return err
		}
		if err := a.awaitDaemon(ctx, client, ours, died); !errors.Is(err, errAnotherRuns) {
			return err
		}
	}
}

// spawnDaemon starts a daemon that outlives us: in its own session, in /, with none of our files
// open. Its output goes to the home's log. It returns the daemon's process ID. If the daemon ends
// while we watch, died receives the reason.
func (a *app) spawnDaemon() (pid int, died <-chan error, err error) {
	program, args, err := a.daemonProgram()
	if err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(a.home.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, agentbox.Errorf(agentbox.Missing, "cannot write the daemon's log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: program, Args: args}
	cmd.Dir = "/"
	// Our own setting may be relative to the current directory.
	cmd.Env = append(os.Environ(), home.EnvDir+"="+a.home.Dir)
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

// awaitDaemon returns when a daemon answers, ours or another. If it is another, ours has ended: it
// would take the home if the other one was stopped before ours had found it. It returns
// errAnotherRuns if the one that we started found another in the home, which has then not answered
// for anotherWait. If ours ends in any other way, the error is the last line of its log.
func (a *app) awaitDaemon(ctx context.Context, client *api.Client, ours int, died <-chan error) error {
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
				return agentbox.Errorf(agentbox.Unavailable, "the daemon does not start: %s", a.lastLogLine()).WithHint("see %s", a.home.Log())
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

// lastLogLine returns the last line of the daemon's log, or its last maxLogLine bytes. It has the
// reason of a failed start.
func (a *app) lastLogLine() string {
	f, err := os.Open(a.home.Log())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, size-maxLogLine), maxLogLine))
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// stopDaemon asks a daemon to exit and waits until its process has ended, so that the next one
// finds the home's lock free. Boxes go on.
func (a *app) stopDaemon(ctx context.Context, client *api.Client, pid int) error {
	if _, err := api.Call(ctx, client, api.Shutdown, api.None{}, nil); err != nil {
		return err
	}
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid) {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
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

// ref returns the box that a verb refers to: the first argument, or the box of this directory's
// branch. Only the daemon, which knows the boxes, can decide which. The directory is always sent,
// because commands start in the corresponding subdirectory of the box. If it no longer exists, or its
// name is not UTF-8, it is "", which the daemon refuses where it needs it.
func (a *app) ref(arg string) api.BoxRef {
	dir, err := os.Getwd()
	if err != nil || !utf8.ValidString(dir) {
		dir = ""
	}
	return api.BoxRef{Box: arg, Directory: dir}
}

// environ is our environment for the daemon, without what is not UTF-8 and so cannot be sent.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return !utf8.ValidString(v) })
}

// currentDir returns the current directory, for verbs that need one.
func currentDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "the current directory is gone: %w", err).WithHint("cd somewhere else")
	}
	return dir, nil
}
