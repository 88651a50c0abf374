package cli

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// runCommand is `run`: a task that this program waits for and lends its streams (runtask.go). It
// exits with the command's status, or with 124 at a limit.
func (a *app) runCommand() *cli.Command {
	var req api.UpRequest
	var timeout time.Duration
	var r run
	return &cli.Command{
		Name: "run", Category: catBox, Usage: "run one command in a new box, and remove the box afterwards", ArgsUsage: "-- CMD...",
		StopOnNthArg: a.commandFollows(),
		Description: "This is a task that you wait for: its output and result are kept (agentbox task show), and its changes are saved as a git ref.\n" +
			"On a terminal, ctrl-c asks whether to cancel the run or leave it running. Without a terminal, it cancels the run.",
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
			if err := a.intoLima(ctx, &req.Isolation, false); err != nil {
				return err
			}
			// Like a foreground command of a shell.
			r.tty = r.tty || a.interactive()
			return a.runTask(ctx, req, r, timeout)
		},
	}
}

// boxAfterLoss returns the state of a box after a lost connection, or the zero Box if err is not such
// a loss. It waits up to endTimeout for a machine of this host to be known as gone. If it still runs
// then, only the connection was lost, and the box is returned as it is.
func (a *app) boxAfterLoss(ctx context.Context, id agentbox.BoxID, err error) agentbox.Box {
	if code := agentbox.CodeOf(err); code != agentbox.Unavailable && code != agentbox.Timeout {
		return agentbox.Box{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for {
		b, err := call(ctx, a, api.ShowBox, api.BoxRef{Box: id.String()})
		if err != nil || b.State != agentbox.Running || b.Ended != nil || agentbox.KindOf(b.Isolation).Elsewhere {
			return b
		}
		if sleep(ctx, endPoll) != nil {
			return b
		}
	}
}

// That a machine has ended, and why, is known a moment after its connections break: the supervisor
// must exit, and the daemon must read what it left.
const (
	endPoll    = 20 * time.Millisecond
	endTimeout = 10 * time.Second
)
