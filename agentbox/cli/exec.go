package cli

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
)

// execCommand is `exec`: a command in a box with our streams or, with --detach, as a job of the
// box. It accepts two forms: with --, and without, where the first word is the box and all later
// words are the command.
func (a *app) execCommand() *cli.Command {
	var r run
	var detached, input bool
	return &cli.Command{
		Name: "exec", Category: catInside, Usage: "run a command in a box", ArgsUsage: "[BOX] -- CMD...",
		StopOnNthArg: a.commandFollows(),
		Description: "You can omit the -- after BOX: agentbox exec BOX ls -n. Every word after BOX is then part of the command, so flags of agentbox\n" +
			"must precede BOX. With the --, they can also follow it. The command gets this program's standard input, output and error, and\n" +
			"its exit code is passed on: 126 if it cannot be run, 127 if it does not exist, 125 if agentbox itself failed.\n" +
			"With --detach it runs as a job, which continues after this program and the daemon end; agentbox attach joins it.",
		Flags: append(r.flags(),
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "run in the background, and print the job's ID", Destination: &detached},
			interactiveFlag(&input)),
		// This makes -it mean -i -t, as in docker.
		UseShortOptionHandling: true,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			box, argv := cmd.Args().First(), a.command
			if argv == nil {
				argv = cmd.Args().Tail()
				if err := checkFirstWord(cmd.Name, argv); err != nil {
					return err
				}
			}
			if len(argv) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "no command given").WithHint("%s", strings.Join(strings.Fields("agentbox exec "+box+" -- CMD..."), " "))
			}
			if a.command != nil && cmd.Args().Len() > 1 {
				return agentbox.Errorf(agentbox.Invalid, "more than one box is named before --").WithHint("agentbox exec --help")
			}
			r.argv = argv
			if detached {
				return a.detach(ctx, box, r, input)
			}
			c, err := a.connect(ctx, box)
			// If the first word is not a box, it may be a command whose -- was forgotten; the hint
			// says so.
			if err != nil && a.command == nil && agentbox.CodeOf(err) == agentbox.NotFound {
				return agentbox.AsError(err).WithHint("agentbox ls lists the boxes; agentbox exec -- %s runs the command in the box of this directory", strings.Join(cmd.Args().Slice(), " "))
			}
			if err != nil {
				return err
			}
			return a.enter(ctx, c, r)
		},
	}
}

// interactiveFlag is docker's -i. It matters only for a job, where nobody may be there to close its
// input. Other commands always have standard input.
func interactiveFlag(input *bool) cli.Flag {
	return &cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "with --detach, keep standard input open for clients that attach; otherwise it is always connected", Destination: input}
}

// flags returns the flags of every verb that runs a command, bound to r.
func (r *run) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal", Destination: &r.tty},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "run as `USER` of the box", Destination: &r.user},
		&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "run in `DIR` of the box", Destination: &r.dir},
		envFlag(&r.env),
		&cli.BoolFlag{Name: "no-stdin", Aliases: []string{"n"}, Usage: "do not read standard input", Destination: &r.noStdin},
	}
}

// shellCommand is `shell`: the login shell of the box's user. Without a terminal it reads commands
// from standard input, as sh does.
func (a *app) shellCommand() *cli.Command {
	var r run
	return &cli.Command{
		Name: "shell", Category: catInside, Usage: "open a shell in a box", ArgsUsage: "[BOX]",
		Flags: r.flags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c, err := a.connect(ctx, cmd.Args().First())
			if err != nil {
				return err
			}
			r.tty = r.tty || a.interactive()
			return a.enter(ctx, c, r)
		},
	}
}
