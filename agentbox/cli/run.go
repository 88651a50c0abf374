package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/supervisor"
)

func (a *app) runCommand() *cli.Command {
	req := api.UpRequest{Ephemeral: true}
	var timeout time.Duration
	var r run
	return &cli.Command{
		Name: "run", Category: catBox, Usage: "run one command in a fresh box that is gone afterwards", ArgsUsage: "-- CMD...",
		StopOnNthArg: a.commandFollows(),
		Description:  "What it printed, its exit code and what it ran on are kept in the runs directory of the home.",
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
			if timeout < 0 {
				return agentbox.Errorf(agentbox.Invalid, "--timeout %s is over before it begins", timeout).WithHint("write it as 90s, 15m or 1h30m")
			}
			req.Command = r.dir == ""
			resp, err := a.up(ctx, req)
			if err != nil {
				return err
			}
			r.tty = r.tty || a.interactive()
			return a.runOnce(ctx, resp, r, timeout)
		},
	}
}

// runOnce runs the command of a run and returns when the box is gone. The box goes when our hold on it does, whether we
// let go of it here or are killed.
func (a *app) runOnce(ctx context.Context, resp api.UpResponse, r run, timeout time.Duration) error {
	held, letGo := context.WithCancel(context.WithoutCancel(ctx))
	released := make(chan struct{})
	go func() {
		defer close(released)
		a.hold(held, resp.Box.ID)
	}()
	keep, err := a.newEvidence(resp.Box, r.argv)
	if err == nil {
		r.keep = keep
		err = a.atLimit(ctx, resp.Box.ID, a.runWithin(ctx, resp.Connection, r, timeout))
		err = keep.close(err)
	}
	rmErr := a.remove(context.WithoutCancel(ctx), resp.Box.ID)
	letGo()
	<-released
	if err == nil {
		err = rmErr
	}
	return err
}

func (a *app) runWithin(ctx context.Context, c api.Connection, r run, timeout time.Duration) error {
	if timeout <= 0 {
		return a.runIn(ctx, c, r)
	}
	done := make(chan error, 1)
	go func() { done <- a.runIn(ctx, c, r) }() // left behind after a timeout: the box goes from under it
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		fmt.Fprintf(a.stderr, "agentbox: the command did not end within %s\n", timeout)
		return exit(exitTimeout)
	}
}

// atLimit replaces the error of a machine that went away by the limit it ended at, if it did.
func (a *app) atLimit(ctx context.Context, id agentbox.BoxID, result error) error {
	b := a.afterLoss(ctx, id, result)
	if which := limitIn(b.Note); which != "" {
		fmt.Fprintf(a.stderr, "agentbox: the run reached its limit: %s\n", which)
		return exit(exitTimeout)
	}
	return result
}

// limitIn is the limit that a box's note says it has reached, "" for none.
func limitIn(note string) string {
	limit, found := strings.CutPrefix(note, supervisor.LimitReached)
	if !found {
		return ""
	}
	which, _, _ := strings.Cut(limit, ";")
	return which
}

// afterLoss is a box as it is when its machine has gone, if err is the loss of a connection and the machine does go.
func (a *app) afterLoss(ctx context.Context, id agentbox.BoxID, err error) agentbox.Box {
	if code := agentbox.CodeOf(err); code != agentbox.Unavailable && code != agentbox.Timeout {
		return agentbox.Box{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	for {
		b, err := call(ctx, a, api.ShowBox, api.BoxRef{Box: id.String()})
		if err != nil || b.State != agentbox.Running || limitIn(b.Note) != "" {
			return b
		}
		select {
		case <-ctx.Done():
			return b
		case <-time.After(noteEvery):
		}
	}
}

// A machine that ends is known to have, and why, a moment after its connections broke.
const (
	noteEvery   = 20 * time.Millisecond
	noteTimeout = 10 * time.Second
)

// hold keeps an ephemeral box for as long as ctx lives, across restarts of the daemon.
func (a *app) hold(ctx context.Context, id agentbox.BoxID) {
	for ctx.Err() == nil {
		client, err := a.daemon(ctx)
		if err == nil {
			_, err = api.Call(ctx, client, api.Hold, api.BoxRef{Box: id.String()}, nil)
			client.Close()
		}
		if err == nil || agentbox.CodeOf(err) == agentbox.NotFound {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// remove removes a box; that it is gone already is no error.
func (a *app) remove(ctx context.Context, id agentbox.BoxID) error {
	client, err := a.daemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = api.Call(ctx, client, api.Remove, api.BoxRef{Box: id.String()}, nil)
	if e := new(agentbox.Error); errors.As(err, &e) && e.Code == agentbox.NotFound {
		return nil
	}
	return err
}
