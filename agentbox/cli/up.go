package cli

import (
	"context"
	"fmt"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// machineFlags returns the flags of the verbs that make boxes. Flags that are not given leave the
// configuration's value.
func machineFlags(req *api.UpRequest) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "use `IMAGE` instead of the configured one: apt:SUITE, oci:DIR, docker-archive:FILE or a reference such as debian:12", Destination: &req.Image},
		&cli.StringFlag{Name: "isolation", Usage: "use this `KIND` of isolation: " + agentbox.IsolationWords() + "; lima: in a machine by Lima", Destination: (*string)(&req.Isolation)},
		&cli.IntFlag{Name: "cpus", Usage: "give the box `N` CPUs (default: depends on this machine; agentbox doctor shows it)", Destination: &req.CPUs},
		&cli.StringFlag{Name: "memory", Usage: "give the box `SIZE` of memory, such as 2GiB (default: depends on this machine)", Destination: &req.Memory},
		&cli.BoolFlag{Name: "cold", Usage: "boot a microvm instead of restoring its template, until the box is reset", Destination: &req.Cold},
	}
}

// upCommand is `up`. It runs the command if there is one. Otherwise it opens a shell on a terminal,
// and on a pipe it prints the ID of the box. --explain and --detach run nothing. --json prints the
// box, an agentbox.Box.
func (a *app) upCommand() *cli.Command {
	var req api.UpRequest
	var detach, explain, approve bool
	var from string
	var r run
	return &cli.Command{
		Name: "up", Category: catBox, Usage: "create or reattach the box of this repository and branch", ArgsUsage: "[-- CMD...]",
		StopOnNthArg: a.commandFollows(),
		Description: "Runs CMD in the box and exits with its code. Without CMD it opens a shell on a terminal, and otherwise prints the box's ID.\n" +
			"The same directory and branch always use the same box; a paused or stopped one is started. The first box of a machine takes minutes.",
		Flags: append(append(machineFlags(&req), r.flags()...),
			&cli.StringFlag{Name: "name", Usage: "name the box `NAME`", Destination: &req.Name},
			&cli.StringFlag{Name: "from", Usage: "make the box from what `TASK` left, here or outside of any checkout", Destination: &from},
			&cli.StringFlag{Name: "devcontainer", Usage: "use .devcontainer/`NAME`/devcontainer.json as the configuration", Destination: &req.Devcontainer},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "create the box, but run nothing in it", Destination: &detach},
			&cli.BoolFlag{Name: "explain", Usage: "show what the box would be created from, and why, but create nothing", Destination: &explain},
			&cli.BoolFlag{Name: "approve", Usage: "approve what the repository asks of this machine, without a question", Destination: &approve},
		),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "up takes no argument %q", cmd.Args().First()).WithHint("put the command after --: agentbox up -- %s", shellescape.QuoteCommand(cmd.Args().Slice()))
			}
			if err := a.intoLima(ctx, &req.Isolation, explain); err != nil {
				return err
			}
			// Only if a command or shell starts in the current directory must that directory be in
			// the box, and must up wait for services.
			req.Command = r.dir == "" && !detach && (len(a.command) > 0 || a.command == nil && a.interactive())
			if from != "" {
				made, err := a.sourceOf(ctx, from)
				if err != nil {
					return err
				}
				req.Source = &made.Source
			}
			if explain {
				return a.explain(ctx, req)
			}
			if from == "" { // a checkout's question is not that of what was made elsewhere
				if err := a.reviewAtTerminal(ctx, approve, req.Devcontainer); err != nil {
					return err
				}
			}
			resp, err := a.up(ctx, req)
			if err != nil {
				return err
			}
			return a.afterUp(ctx, resp, r, detach)
		},
	}
}

func (a *app) sourceOf(ctx context.Context, task string) (api.CapturedSource, error) {
	dir, err := currentDir()
	if err != nil {
		return api.CapturedSource{}, err
	}
	return call(ctx, a, api.SourceOfTask, api.TaskSourceRequest{TaskRef: api.TaskRef{Task: task}, Directory: dir})
}

// up creates or finds the box of the current directory. If it created it, it says so on standard
// error, with the time that took.
func (a *app) up(ctx context.Context, req api.UpRequest) (api.UpResponse, error) {
	var from checkout
	var err error
	if req.Source != nil { // made elsewhere; its box belongs to this directory nevertheless
		from.source = req.Source
		from.directory, err = currentDir()
	} else {
		from, err = a.checkout(ctx)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	req.Directory, req.Source, req.Environ = from.directory, from.source, a.environ()
	start := time.Now()
	resp, err := call(ctx, a, api.Up, req)
	if err == nil && resp.Created && !a.quiet {
		fmt.Fprintf(a.stderr, "box %s (%s) ready in %s\n", resp.Box.Name, resp.Box.ID, tookText(time.Since(start)))
	}
	if err == nil && a.host != "" {
		err = a.reportArrived(ctx, resp.Box.ID)
	}
	return resp, err
}

// afterUp does what the user wants the box for: the command, the shell, or the ID. With --json it
// prints the box first, and opens no shell, whose output would follow the JSON.
func (a *app) afterUp(ctx context.Context, resp api.UpResponse, r run, detach bool) error {
	r.argv = a.command
	shell := r.argv == nil && a.interactive()
	switch {
	// Programs receive the box and run commands themselves, unless they gave one.
	case a.json:
		if err := a.printJSON(resp.Box); err != nil || len(r.argv) == 0 {
			return err
		}
	// On a terminal, the line about the box on standard error is enough; a script needs the ID.
	case detach || len(r.argv) == 0 && !shell:
		if a.quiet || !a.interactive() {
			fmt.Fprintln(a.stdout, resp.Box.ID)
		}
		return nil
	}
	r.tty = r.tty || a.interactive()
	return a.enter(ctx, resp.Connection, r)
}
