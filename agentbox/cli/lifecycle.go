package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// boxVerb returns a verb that does one thing to one box, by an endpoint that returns the box.
// description says more than usage in the verb's help. request makes the request from the box's
// name, and done is what the verb reports. --json prints the resulting agentbox.Box; --quiet its ID.
func boxVerb[Req any](a *app, name, usage, description, done string, e api.Endpoint[Req, agentbox.Box], request func(api.BoxRef) Req, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Category: catLifecycle, Usage: usage, Description: description, ArgsUsage: "[BOX]", Flags: flags,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, e, request(a.ref(cmd.Args().First())), boxFacts(done))
		},
	}
}

// boxOnly is the request of calls that need only the box.
func boxOnly(ref api.BoxRef) api.BoxRef { return ref }

// pauseCommand is `pause`: it saves memory and processes to disk, and resume restores them.
func (a *app) pauseCommand() *cli.Command {
	return boxVerb(a, "pause", "save a box to disk, so that it uses no memory until it is resumed",
		"Processes, memory and files stay; network connections end. The next command in the box resumes it.", "is paused", api.Pause, boxOnly)
}

// resumeCommand is `resume`. Nobody has to use it: every verb that enters a box wakes it.
func (a *app) resumeCommand() *cli.Command {
	return boxVerb(a, "resume", "continue a paused box where it stopped",
		"You rarely need this: every command that enters a box resumes it. A stopped box gets a new machine on its workspace.", "is running", api.Resume, boxOnly)
}

// resetCommand is `reset`: a new machine on the same workspace. It asks for no
// confirmation, because what it drops can be made again.
func (a *app) resetCommand() *cli.Command {
	return boxVerb(a, "reset", "start a new machine, and keep only the workspace",
		"Drops processes, memory, installed packages, the home and /tmp without asking, and applies what has changed in the configuration.", "was reset", api.Reset, boxOnly)
}

// forkCommand is `fork`: a copy of a box as it is now, named by --name, else after the original.
func (a *app) forkCommand() *cli.Command {
	var name string
	return &cli.Command{
		Name: "fork", Category: catLifecycle, Usage: "copy a box as it is now, including its running processes", ArgsUsage: "[BOX|TASK]",
		Description: "The original goes on running. Both then change independently of each other. Of a box or task of another machine, and of a\n" +
			"task that has ended, the copy is made here of its snapshot: commits and files, no processes.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "name", Usage: "call the copy `NAME`", Destination: &name}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			of := cmd.Args().First()
			b, err := call(ctx, a, api.Fork, api.ForkRequest{BoxRef: a.ref(of), Name: name})
			if agentbox.CodeOf(err) == agentbox.NotFound && of != "" {
				b, err = a.forkTask(ctx, of, name)
			}
			if err != nil {
				return err
			}
			return a.report(boxFacts("is running")(b))
		},
	}
}

// forkTask copies the box of a task, or else what another machine works on or has left.
func (a *app) forkTask(ctx context.Context, of, name string) (b agentbox.Box, err error) {
	var c api.Connection
	made := false
	info, err := call(ctx, a, api.ShowTask, api.TaskRef{Task: of})
	switch last := info.Task.Last(); {
	case err != nil:
		c, made, err = a.pullContext(ctx, api.ContextRef{Name: of}, name)
	case last != nil && last.Result == nil && info.Task.Where == "":
		return call(ctx, a, api.Fork, api.ForkRequest{BoxRef: api.BoxRef{Box: last.BoxName}, Name: name})
	default:
		var source api.CapturedSource
		if source, err = a.sourceOf(ctx, info.Task.ID.String()); err == nil {
			var resp api.UpResponse
			resp, err = a.up(ctx, api.UpRequest{Source: &source.Source, Name: name})
			c, made = resp.Connection, resp.Created
		}
	}
	if err != nil {
		return b, err
	}
	if b, err = call(ctx, a, api.ShowBox, api.BoxRef{Box: c.Box.String()}); err == nil && !made {
		return b, agentbox.Errorf(agentbox.Exists, "box %s was made of %s before", b.Name, of).WithHint("agentbox fork %s copies it, or agentbox rm %s removes it first", b.Name, b.Name)
	}
	if err == nil && !a.quiet {
		fmt.Fprintf(a.stderr, "%s was copied by its snapshot: commits and files, no processes\n", of)
	}
	return b, err
}

// checkpointCommand is `checkpoint`. It prints the ID, which rollback accepts. --json prints an
// agentbox.Checkpoint.
func (a *app) checkpointCommand() *cli.Command {
	var req api.CheckpointRequest
	return &cli.Command{
		Name: "checkpoint", Category: catLifecycle, Usage: "save the state of a box, to roll back to later", ArgsUsage: "[BOX]",
		Description: "Saves memory, processes and workspace, and prints the checkpoint's ID. The box goes on running. Checkpoints are removed with their box.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "name", Usage: "call the checkpoint `NAME`", Destination: &req.Name}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			req.BoxRef = a.ref(cmd.Args().First())
			return callAndReport(ctx, a, api.Checkpoint, req, func(c agentbox.Checkpoint) facts {
				return facts{value: c, ids: []string{c.ID}, text: c.ID}
			})
		},
	}
}

// rollbackCommand is `rollback`. It loses what came after the checkpoint, but asks for no
// confirmation, because that is its purpose.
func (a *app) rollbackCommand() *cli.Command {
	var to string
	return boxVerb(a, "rollback", "restore a checkpoint of a box; everything after it is lost",
		"Restores memory, processes and workspace, without asking. agentbox show lists the checkpoints.", "was rolled back", api.Rollback,
		func(ref api.BoxRef) api.RollbackRequest { return api.RollbackRequest{BoxRef: ref, Checkpoint: to} },
		&cli.StringFlag{Name: "to", Usage: "restore this `CHECKPOINT`: an ID or a name (default: the latest)", Destination: &to})
}
