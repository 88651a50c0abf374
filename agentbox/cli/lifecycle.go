package cli

import (
	"context"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// onBox makes a verb that does one thing to one box, by an endpoint that takes a box and gives it
// back. done is what is said of the box afterwards. --json is the box as it is then, an
// agentbox.Box; --quiet its id.
func (a *app) onBox(name, usage, done string, e api.Endpoint[api.BoxRef, agentbox.Box]) *cli.Command {
	return &cli.Command{
		Name: name, Category: catLifecycle, Usage: usage, ArgsUsage: "[BOX]",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			ref, err := a.ref(cmd.Args().First())
			if err != nil {
				return err
			}
			b, err := call(ctx, a, e, ref)
			if err != nil {
				return err
			}
			return a.printBox(b, done)
		},
	}
}

// pauseCommand is `pause`: memory and processes go to disk, and resume brings them back.
func (a *app) pauseCommand() *cli.Command {
	return a.onBox("pause", "save a box to disk; it holds no memory until it is resumed", "is paused", api.Pause)
}

// resumeCommand is `resume`. It is never needed: every verb that enters a box wakes it.
func (a *app) resumeCommand() *cli.Command {
	return a.onBox("resume", "let a paused box go on where it was", "is running", api.Resume)
}

// resetCommand is `reset`: a new machine from the template on the same workspace. It asks nothing,
// as what it drops can be made again.
func (a *app) resetCommand() *cli.Command {
	return a.onBox("reset", "drop everything but the workspace, and start afresh", "was reset", api.Reset)
}

// forkCommand is `fork`: a box like another, from this moment on. The copy has the name that --name
// says, or one made of the original's.
func (a *app) forkCommand() *cli.Command {
	var req api.ForkRequest
	return &cli.Command{
		Name: "fork", Category: catLifecycle, Usage: "copy a box as it is now, running processes included", ArgsUsage: "[BOX]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "name", Usage: "call the copy `NAME`", Destination: &req.Name}},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			if req.BoxRef, err = a.ref(cmd.Args().First()); err != nil {
				return err
			}
			b, err := call(ctx, a, api.Fork, req)
			if err != nil {
				return err
			}
			return a.printBox(b, "is running")
		},
	}
}

// checkpointCommand is `checkpoint`. It prints the id, which rollback takes. --json is an
// agentbox.Checkpoint.
func (a *app) checkpointCommand() *cli.Command {
	var req api.CheckpointRequest
	return &cli.Command{
		Name: "checkpoint", Category: catLifecycle, Usage: "save the state of a box to come back to", ArgsUsage: "[BOX]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "name", Usage: "call the checkpoint `NAME`", Destination: &req.Name}},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			if req.BoxRef, err = a.ref(cmd.Args().First()); err != nil {
				return err
			}
			c, err := call(ctx, a, api.Checkpoint, req)
			if err != nil {
				return err
			}
			return a.report(facts{value: c, ids: []string{c.ID}, text: c.ID})
		},
	}
}

// rollbackCommand is `rollback`. It asks nothing, though what came after the checkpoint is lost:
// going back is what it is for.
func (a *app) rollbackCommand() *cli.Command {
	var req api.RollbackRequest
	return &cli.Command{
		Name: "rollback", Category: catLifecycle, Usage: "take a box back to a checkpoint; what came after is lost", ArgsUsage: "[BOX]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "to", Usage: "`CHECKPOINT` to go to: an id or a name (default: the latest)", Destination: &req.Checkpoint}},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			if req.BoxRef, err = a.ref(cmd.Args().First()); err != nil {
				return err
			}
			b, err := call(ctx, a, api.Rollback, req)
			if err != nil {
				return err
			}
			return a.printBox(b, "was rolled back")
		},
	}
}
