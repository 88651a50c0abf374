package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/job"
)

// attachCommand is `attach`. Box and job are both optional; a single word that looks like a job's
// ID is a job. For a job that has ended it prints the output and exits as the job did, so that a
// script gets the same result whether it attaches before the end or after.
func (a *app) attachCommand() *cli.Command {
	var noStdin bool
	return &cli.Command{
		Name: "attach", Category: catInside, Usage: "attach this terminal to a job: see its output, and type into it", ArgsUsage: "[BOX] [JOB]",
		Description: "Without JOB, it attaches to the one that runs in the box. Press ctrl-p ctrl-q to detach: the job continues, also if this program is\n" +
			"killed. The exit code is that of the job. Several clients can attach; the job's terminal has the size of the latest one.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "no-stdin", Aliases: []string{"n"}, Usage: "do not read standard input", Destination: &noStdin}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			box, id := cmd.Args().First(), cmd.Args().Get(1)
			// `attach j-1234` names a job in any box.
			if isJob(box) && id == "" {
				box, id = "", box
			}
			found, err := call(ctx, a, api.ShowJob, api.JobRef{BoxRef: a.ref(box), Job: id})
			if err != nil {
				return err
			}
			return a.attach(ctx, found, noStdin)
		},
	}
}

// attach attaches to a job and returns its exit code as an error (exit). found describes the job as
// it was a moment ago: if it has ended since, the connection reports that.
func (a *app) attach(ctx context.Context, found agentbox.Job, noStdin bool) error {
	if state := found.State; state == agentbox.JobEnded || state == agentbox.JobLost {
		return a.endedJob(ctx, found)
	}
	c, err := a.connect(ctx, found.Box.String())
	if err != nil {
		return err
	}
	client, err := a.dial(ctx, c, "")
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	var modes job.Modes
	cmd, restore, err := a.streams(!noStdin, found.TTY && !noStdin && term.IsTerminal(int(a.stdin.Fd())))
	if err != nil {
		return err
	}
	defer restore()
	if cmd.TTY != nil {
		cmd.Stdin = &detachReader{r: a.stdin, detach: func() { detach(errDetached) }}
		cmd.Stdout = io.MultiWriter(a.stdout, &modes)
	}
	// Replay first draws the job's screen, as if the client had been attached from the beginning.
	status, err := environment.Attach(ctx, client, environment.JobAttach{Job: found.ID.String(), Replay: true}, cmd)
	// The job keeps the terminal modes that it has set (mouse, alternate screen), but our terminal
	// must not.
	if err != nil && cmd.TTY != nil {
		io.WriteString(a.stdout, modes.Reset()+"\r\n")
	}
	return a.attached(ctx, found, status, err)
}

// errDetached is the cause of a context that ended because the user detached from the job.
var errDetached = errors.New("detached from the job")

// exitInterrupted is the shell's exit code for a program that SIGINT ended.
const exitInterrupted = 130

// attached returns the result of an attachment. Detaching is no failure, an interrupt is exit code 130,
// and after a lost connection it looks at the job's state.
func (a *app) attached(ctx context.Context, found agentbox.Job, status environment.Status, err error) error {
	switch {
	case errors.Is(err, errDetached):
		fmt.Fprintf(a.stderr, "agentbox: detached from %s, which keeps running\r\n", found.ID)
		return nil
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(a.stderr, "agentbox: detached from %s, which keeps running; agentbox jobs kill %s ends it\n", found.ID, found.ID)
		return exit(exitInterrupted)
	case agentbox.CodeOf(err) == agentbox.Unavailable:
		return a.jobAfterLoss(ctx, found, err)
	case err != nil:
		return err
	case status.Code != 0:
		return exit(status.Code)
	}
	return nil
}

// jobAfterLoss returns the job's outcome after its connection was lost. The job may have been
// paused or ended together with its box, and that is what the user should see. Otherwise it returns
// cause.
func (a *app) jobAfterLoss(ctx context.Context, found agentbox.Job, cause error) error {
	b := a.boxAfterLoss(ctx, found.Box, cause)
	now, err := call(ctx, a, api.ShowJob, api.JobRef{Job: found.ID.String()})
	switch {
	case err != nil:
		return err
	// The box's limit or lease may be the reason; boxAfterLoss has waited until that is known.
	case now.State == agentbox.JobPaused:
		return agentbox.Errorf(agentbox.Unavailable, "box %s was paused together with job %s", b.Name, now.ID).
			WithHint("agentbox attach %s resumes the box", now.ID)
	case now.State == agentbox.JobEnded || now.State == agentbox.JobLost:
		return jobResult(now)
	}
	return cause
}

// endedJob prints the output of a job that has ended, and exits as the job did. The output is
// printed unchanged, including escape sequences, as it would have appeared on the terminal.
func (a *app) endedJob(ctx context.Context, found agentbox.Job) error {
	if err := a.printJob(ctx, api.JobRef{Job: found.ID.String()}, logs{tail: -1}); err != nil {
		return err
	}
	return jobResult(found)
}

// jobResult returns the exit code of a job that has ended: nil for 0, else an exit. A lost job, which
// has no exit code, is Unavailable.
func jobResult(j agentbox.Job) error {
	switch {
	case j.Exit == nil:
		return agentbox.Errorf(agentbox.Unavailable, "job %s was lost: its machine ended while it ran", j.ID).
			WithHint("agentbox logs %s prints its output", j.ID)
	case *j.Exit != 0:
		return exit(*j.Exit)
	}
	return nil
}

// The keys that detach from a job, the same as docker's: ctrl-p, then ctrl-q.
const (
	firstKey  = 'P' - '@'
	secondKey = 'Q' - '@'
)

// detachReader is a terminal's input without the keys that detach from the job. It holds back a
// ctrl-p until the next key shows its purpose, and passes it on unless that key is ctrl-q.
type detachReader struct {
	r      io.Reader
	detach func() // called by Read, once, before it returns io.EOF
	held   bool   // ctrl-p came last, and was not passed on yet
}

// Read reads into at most half of p, because each key may become two: the held ctrl-p and the key
// itself.
func (d *detachReader) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	in := make([]byte, len(p)/2)
	n, err := d.r.Read(in)
	out := p[:0]
	for _, c := range in[:n] {
		if d.held && c == secondKey {
			d.detach()
			return len(out), io.EOF
		}
		if d.held {
			out = append(out, firstKey)
		}
		if d.held = c == firstKey; !d.held {
			out = append(out, c)
		}
	}
	return len(out), err
}
