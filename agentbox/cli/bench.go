package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchCommand groups the benchmarks that users run. The verbs are here, the scenarios in package
// bench. What compares our own parts with other programs is a program of its own, tools/lab.
func (a *app) benchCommand() *cli.Command {
	var commands []*cli.Command
	for _, v := range benchVerbs {
		commands = append(commands, a.benchVerb(v))
	}
	return &cli.Command{
		Name: "bench", Category: catHost, Usage: "measure agentbox on this machine",
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return agentbox.Errorf(agentbox.Invalid, "there is no benchmark %q", name).WithHint("agentbox bench --help lists the benchmarks")
			}
			return cli.ShowSubcommandHelp(cmd)
		},
		Commands: commands,
	}
}

// benchVerbs are the benchmarks that users run.
var benchVerbs = []bench.Verb{
	{
		Name: "enter", Usage: "measure entering boxes: complete commands, as you type them", Runs: 20,
		Description: "Uses a temporary home and temporary repositories. Let nothing else run meanwhile.",
		Measure:     func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, (*bench.Lab).Enter) },
	},
	{
		Name: "work", Usage: "measure builds and tests on this machine, outside and inside of boxes", Runs: 5,
		Description: "Needs gcc, make and the network, for the source of zlib. Let nothing else run meanwhile.",
		Measure:     benchWork,
	},
}

// benchWork measures the same work on the machine itself and in boxes, in alternating runs. The
// builds are those of the repository in the current directory, and of zlib.
func benchWork(ctx context.Context, r *bench.Run) error {
	kinds, err := r.Kinds(ctx)
	if err != nil {
		return err
	}
	dir, err := currentDir()
	if err != nil {
		return err
	}
	return r.InLab(ctx, "", func(lab *bench.Lab) error {
		work, err := lab.OpenWork(ctx, kinds, dir)
		if err != nil {
			return err
		}
		return r.Measure(ctx, work.Scenarios())
	})
}

// benchVerb returns the command of a benchmark. It ends with status 1 if samples failed.
func (a *app) benchVerb(v bench.Verb) *cli.Command {
	cmd := v.Command(bench.Frame{Out: a.stdout, Begin: a.beginBench})
	measure := cmd.Action
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		err := measure(ctx, cmd)
		if failed := (bench.Failed{}); errors.As(err, &failed) {
			fmt.Fprintf(a.stderr, "agentbox: %s\n", failed)
			return exit(1)
		}
		return err
	}
	return cmd
}

// beginBench starts a benchmark of this very program, because whole commands are measured. --json
// without a file is the global flag, and means standard output.
func (a *app) beginBench(ctx context.Context, r *bench.Run) (end func(), err error) {
	if r.Binary, err = os.Executable(); err != nil {
		return nil, err
	}
	if a.json && r.File == "" {
		r.File = "-"
	}
	p := a.newProgress()
	r.Progress, r.Home = p.event, a.home
	return p.close, r.Begin(ctx, buildID())
}
