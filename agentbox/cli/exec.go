package cli

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
)

func (a *app) execCommand() *cli.Command {
	var r run
	return &cli.Command{
		Name: "exec", Category: catInside, Usage: "run a command in a box", ArgsUsage: "[BOX] -- CMD...",
		Description: "Standard input, output and error are the command's own, and so is the exit code: 126 when it cannot be\ninvoked, 127 when there is none of that name, 125 when agentbox itself failed.",
		Flags:       append(r.flags(), interactiveFlag()),
		// So that -it, which fingers know from elsewhere, means -i -t.
		UseShortOptionHandling: true,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			box, argv := cmd.Args().First(), a.command
			if argv == nil && cmd.Args().Len() > 1 {
				argv = cmd.Args().Tail()
			}
			if len(argv) == 0 {
				return agentbox.Errorf(agentbox.Invalid, "no command given").WithHint("%s", strings.Join(strings.Fields("agentbox exec "+box+" -- CMD..."), " "))
			}
			if a.command != nil && cmd.Args().Len() > 1 {
				return agentbox.Errorf(agentbox.Invalid, "more than one box named before --")
			}
			c, err := a.connect(ctx, box)
			if err != nil && a.command == nil && agentbox.CodeOf(err) == agentbox.NotFound { // perhaps it was no box
				return agentbox.AsError(err).WithHint("agentbox ls shows the boxes; agentbox exec -- %s runs it in the box of this directory", strings.Join(cmd.Args().Slice(), " "))
			}
			if err != nil {
				return err
			}
			r.argv = argv
			return a.enter(ctx, c, r)
		},
	}
}

// interactiveFlag does nothing: standard input is connected anyway.
func interactiveFlag() cli.Flag {
	return &cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "connect standard input, as is done anyway"}
}

// flags are the flags of every verb that runs a command.
func (r *run) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal", Destination: &r.tty},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "run as `USER` of the box", Destination: &r.user},
		&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "run in `DIR` of the box", Destination: &r.dir},
		&cli.StringMapFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE`", Destination: &r.env},
		&cli.BoolFlag{Name: "no-stdin", Aliases: []string{"n"}, Usage: "do not read standard input", Destination: &r.noStdin},
	}
}

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
