package cli

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// runCommand is `run`: a task that this program waits for and gives its streams to (runtask.go). It
// exits as the command does, or with 124 at a limit.
func (a *app) runCommand() *cli.Command {
	var req api.UpRequest
	var timeout time.Duration
	var r run
	return &cli.Command{
		Name: "run", Category: catBox, Usage: "run one command in a fresh box that is gone afterwards", ArgsUsage: "-- CMD...",
		StopOnNthArg: a.commandFollows(),
		Description: "It is a task that one waits for: what it printed and how it ended is kept (agentbox task show), and what it changed is a ref of git.\n" +
			"Ctrl-C on a terminal asks whether to cancel it or to leave it running; elsewhere it is cancelled.",
		Flags: append(append(machineFlags(&req), r.flags()...),
			&cli.DurationFlag{Name: "timeout", Usage: "end the command after `TIME`, with exit code 124", Destination: &timeout},
		),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if r.argv = a.command; r.argv == nil {
				r.argv = cmd.Args().Slice()
			}
			if len(r.argv) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "no command given").WithHint("agentbox run -- CMD...")
			}
			if err := checkLimits(cmd); err != nil {
				return err
			}
			// As a shell's foreground command has.
			r.tty = r.tty || a.interactive()
			return a.runTask(ctx, req, r, timeout)
		},
	}
}

// afterLoss is a box as it is when its machine has gone, if err is the loss of a connection; the
// zero Box for any other error, or none. It waits for noteTimeout at most for the machine to be
// known as gone; one that still runs then was lost by the connection alone, and is given as it is.
func (a *app) afterLoss(ctx context.Context, id agentbox.BoxID, err error) agentbox.Box {
	if code := agentbox.CodeOf(err); code != agentbox.Unavailable && code != agentbox.Timeout {
		return agentbox.Box{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	for {
		b, err := call(ctx, a, api.ShowBox, api.BoxRef{Box: id.String()})
		if err != nil || b.State != agentbox.Running || b.Ended != nil {
			return b
		}
		select {
		case <-ctx.Done():
			return b
		case <-time.After(noteEvery):
		}
	}
}

// A machine that ends is known to have, and why, a moment after its connections broke: the
// supervisor has to end, and the daemon to read what it left.
const (
	noteEvery   = 20 * time.Millisecond
	noteTimeout = 10 * time.Second
)
