package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// runTask runs a command as a task that this program waits for, and exits as the command does.
// Three things happen at once: the attachment to the command, a call that holds the task
// (HoldTask), and signals or keys that may end either. The task's result decides the exit code,
// rather than the end of the connection, because a machine that ends at a limit breaks the
// connection first.
func (a *app) runTask(ctx context.Context, req api.UpRequest, r run, timeout time.Duration) error {
	submission, err := a.runSubmission(ctx, req, r, timeout)
	if err != nil {
		return err
	}
	begun, err := call(ctx, a, api.RunTask, submission)
	if err != nil {
		return err
	}
	// The holding call has its own context: an interrupt goes to the command first (relaySignals), and
	// cancels the task only through its own call.
	w := &foregroundTask{a: a, id: begun.Task.ID, timeout: timeout, ended: make(chan struct{}), signals: make(chan os.Signal, 8)}
	holdCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	defer w.relaySignals(ctx, holdCtx, release)()
	go func() {
		defer close(w.ended)
		// The end of this call cancels the task. That is how a killed client takes its task with
		// it.
		w.task, w.err = callAcrossRestarts(holdCtx, a, api.HoldTask, w.id)
	}()
	// The attachment ends first, with the command. The result is known a moment later.
	err = w.attach(ctx, begun, r)
	w.detached.Store(true)
	if errors.Is(err, errDetached) {
		fmt.Fprintf(a.stderr, "agentbox: %s keeps running; agentbox task attach %s joins it\r\n", w.id, w.id)
		return nil
	}
	// Wait until the box is gone, so that its resources are free for the next run.
	<-w.ended
	if w.err != nil {
		return w.err
	}
	return w.result(err)
}

// runSubmission returns the task of a run: in the foreground, with the caller's terminal and environment.
func (a *app) runSubmission(ctx context.Context, req api.UpRequest, r run, timeout time.Duration) (api.TaskSubmission, error) {
	c, err := a.checkout(ctx)
	if err != nil {
		return api.TaskSubmission{}, err
	}
	spec := agentbox.TaskSpec{
		Directory: c.directory, Source: c.source, Dir: r.dir, User: r.user, Env: r.environ(), TTY: r.tty, Image: req.Image, Isolation: req.Isolation, CPUs: req.CPUs, Memory: req.Memory,
		Cold: req.Cold, Foreground: true, Input: !r.noStdin, Limits: agentbox.TaskLimits{Wall: timeout},
	}
	if r.tty {
		spec.Term = os.Getenv("TERM")
		spec.Columns, spec.Rows = a.terminalSize()
	}
	return api.TaskSubmission{Spec: spec, Commands: [][]string{r.argv}, Environ: a.environ()}, nil
}

// foregroundTask is a task that this program waits for. Goroutines of signals and keys may call its
// methods. task and err belong to the goroutine that closes ended, and to others after that.
type foregroundTask struct {
	a       *app
	id      agentbox.TaskID
	timeout time.Duration
	signals chan os.Signal // for the command; dropped if the channel is full
	// detached means that the command has ended or the user has left it, so that signals no longer
	// reach it.
	detached atomic.Bool
	ended    chan struct{} // closed when the two below are set
	task     agentbox.Task
	err      error
}

// errNoConnection is of a task that ended before this program could attach to it.
var errNoConnection = errors.New("its box is gone already")

// attach connects our streams to the command until it ends or the user detaches. A task that ended
// before that has no connection; its result says why. attach returns errDetached if the user left the
// task running.
func (f *foregroundTask) attach(ctx context.Context, begun api.TaskStarted, r run) error {
	last := begun.Task.Last()
	if begun.Connection.Key == "" || last == nil {
		return errNoConnection
	}
	ctx, detach := context.WithCancelCause(context.WithoutCancel(ctx))
	defer detach(nil)
	client, err := f.a.dial(ctx, begun.Connection, r.user)
	if err != nil {
		return err
	}
	defer client.Close()
	cmd, restore, err := f.a.streams(!r.noStdin, r.tty)
	if err != nil {
		f.cancel(ctx)
		return err
	}
	defer restore()
	cmd.Signals = f.signals
	if r.tty && !r.noStdin {
		release := func() { f.release(ctx, detach) }
		cmd.Stdin = &detachReader{r: &interruptPrompt{r: f.a.stdin, w: f.a.stderr, cancel: func() { f.cancel(ctx) }, release: release}, detach: release}
	}
	// The task has the same limit. This timer ends it even if its box does not answer.
	if f.timeout > 0 {
		defer time.AfterFunc(f.timeout, func() { f.limit(ctx) }).Stop()
	}
	_, err = environment.Attach(ctx, client, environment.JobAttach{Job: last.Job.String(), Whole: true, EndInput: true}, cmd)
	return err
}

// relaySignals handles this program's signals until stop is called.
//
//   - Each signal is passed to the command, which may want to clean up.
//   - A signal that ends programs also cancels the task, since the command may ignore it. So does an
//     interrupt from before this call, which has already ended ctx.
//   - When the job's output has ended, a second such signal ends the wait for the result: it calls
//     release.
func (f *foregroundTask) relaySignals(ctx, holdCtx context.Context, release context.CancelFunc) (stop func()) {
	got := make(chan os.Signal, 8)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if ctx.Err() != nil && len(got) == 0 {
		got <- os.Interrupt
	}
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for cancelled := false; ; {
			select {
			case <-done:
				return
			case s := <-got:
				select {
				case f.signals <- s:
				default: // the channel is full: drop it
				}
				switch {
				case s == syscall.SIGUSR1 || s == syscall.SIGUSR2:
				case cancelled && f.detached.Load():
					release()
				default:
					cancelled = true
					work.Go(func() { f.cancel(holdCtx) })
				}
			}
		}
	})
	return func() {
		signal.Stop(got)
		close(done)
		release()
		work.Wait()
	}
}

// cancel ends the task. It is no error if the task has already ended.
func (f *foregroundTask) cancel(ctx context.Context) {
	_, err := call(ctx, f.a, api.CancelTask, api.TaskRef{Task: f.id.String()})
	f.reportUnlessEnded(ctx, "cancel", err)
}

// limit ends the task at its time limit. This program counts that time from when the command runs.
func (f *foregroundTask) limit(ctx context.Context) {
	_, err := call(ctx, f.a, api.LimitTask, api.TaskLimit{Task: f.id.String(), Limit: f.wall()})
	f.reportUnlessEnded(ctx, "end", err)
}

// reportUnlessEnded reports what could not be done, if the task still runs. After the end of a task
// its calls fail with Conflict.
func (f *foregroundTask) reportUnlessEnded(ctx context.Context, what string, err error) {
	if err != nil && agentbox.CodeOf(err) != agentbox.Conflict && ctx.Err() == nil {
		f.printError(what, err)
	}
}

// printError prints an error, with a carriage return, because the terminal may be raw.
func (f *foregroundTask) printError(what string, err error) {
	fmt.Fprintf(f.a.stderr, "agentbox: cannot %s %s: %s\r\n", what, f.id, oneLine(errorText(err)))
}

func (f *foregroundTask) wall() agentbox.Limit {
	return agentbox.Limit{Kind: agentbox.LimitWall, Time: f.timeout}
}

// release detaches and leaves the task running. If the call fails, the user stays attached, because
// the end of this program would then cancel the task.
func (f *foregroundTask) release(ctx context.Context, detach context.CancelCauseFunc) {
	if _, err := call(ctx, f.a, api.ReleaseTask, api.TaskRef{Task: f.id.String()}); err != nil {
		f.printError("detach from", err)
		return
	}
	detach(errDetached)
}

// result returns the outcome of the run; attached is the error of the attachment to its command. A
// limit of --timeout or the configuration is 124. For a command that could not be invoked it is the
// box's code (126, 127) with its reason. A run without an exit code is an error.
func (f *foregroundTask) result(attached error) error {
	last := f.task.Last()
	if last == nil || last.Result == nil {
		return errors.Join(attached, agentbox.Errorf(agentbox.Conflict, "the run was cancelled before it started"))
	}
	res := last.Result
	if !f.a.quiet && (res.Ref != "" || res.Box != "") {
		fmt.Fprintf(f.a.stderr, "agentbox: kept: %s\n", res.WorkText())
	}
	switch {
	// The user has just typed --timeout, so its message is shorter than that of a configured limit.
	case res.State == agentbox.TaskLimited && res.Limit == f.wall():
		fmt.Fprintf(f.a.stderr, "agentbox: the command did not end within %s\n", f.timeout)
		return exit(exitTimeout)
	case res.State == agentbox.TaskLimited:
		fmt.Fprintf(f.a.stderr, "agentbox: the run reached its limit: %s\n", res.Limit)
		return exit(exitTimeout)
	case res.Exit != nil && *res.Exit != 0:
		if res.State == agentbox.TaskFailed && attached != nil { // it could not be invoked
			fmt.Fprintf(f.a.stderr, "agentbox: %s\n", oneLine(res.Reason))
		}
		return exit(*res.Exit)
	case res.State == agentbox.TaskSucceeded && attached != nil:
		return agentbox.Errorf(agentbox.Unavailable, "the command succeeded, but not all of its output arrived here: %w", attached).
			WithHint("agentbox task logs %s", f.id)
	case res.State == agentbox.TaskSucceeded:
		return nil
	// The connection's error says more than the state of a task without a result.
	case attached != nil:
		return attached
	}
	return agentbox.Errorf(agentbox.Unavailable, "the run is %s: %s", res.State, reasonText(*res)).WithHint("agentbox task show %s", f.id)
}

// The key that interruptPrompt replaces by a question, and the question.
const (
	keyInterrupt = 'C' - '@'
	question     = "\r\nagentbox: cancel the run (y), leave it running (l), send ctrl-c to it (c), or continue (any other key)? "
)

// interruptPrompt is a terminal's input in which ctrl-c asks the user what to do. The answering keys
// do not reach the command; all others do. It writes the question to w, a terminal in raw mode.
type interruptPrompt struct {
	r io.Reader
	w io.Writer
	// Read calls these for the answers y and l, and waits for them.
	cancel, release func()
	asked           bool // the next key is an answer
}

// Read implements io.Reader. Between the question and its answer the command receives nothing.
func (i *interruptPrompt) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	out := p[:0]
	for _, c := range p[:n] {
		switch {
		case !i.asked && c == keyInterrupt:
			i.asked = true
			io.WriteString(i.w, question)
		case !i.asked:
			out = append(out, c)
		default:
			i.asked = false
			io.WriteString(i.w, "\r\n")
			switch c {
			case 'y', 'Y', keyInterrupt:
				i.cancel()
			case 'l', 'L':
				i.release()
			case 'c', 'C':
				out = append(out, keyInterrupt)
			}
		}
	}
	return len(out), err
}
