package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchCommand groups the benchmarks that users run. The verbs are here, the scenarios in package
// bench. What compares our own parts with other programs is a program of its own, tools/lab.
func (a *app) benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Category: catHost, Usage: "measure agentbox on this machine",
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return agentbox.Errorf(agentbox.Invalid, "there is no benchmark %q", name).WithHint("agentbox bench --help lists the benchmarks")
			}
			return cli.ShowSubcommandHelp(cmd)
		},
		Commands: []*cli.Command{
			a.benchVerb("enter", "measure entering boxes: complete commands, as you type them",
				"Uses a temporary home and temporary repositories. Let nothing else run meanwhile.", 20,
				func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, (*bench.Lab).Enter) }),
			a.benchVerb("work", "measure builds and tests on this machine, outside and inside of boxes",
				"Needs gcc, make and the network, for the source of zlib. Let nothing else run meanwhile.", 5, benchWork),
		},
	}
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

// benchVerb returns the command of a benchmark. runs is the default number of samples. After a
// failure nothing is printed, because half a comparison misleads.
func (a *app) benchVerb(name, usage, description string, runs int, measure func(context.Context, *bench.Run) error) *cli.Command {
	var r bench.Run
	var isolation, file string
	return &cli.Command{
		Name: name, Usage: usage, Description: description,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: runs, Usage: "take `N` samples of each scenario", Destination: &r.Runs},
			&cli.StringFlag{Name: "isolation", Usage: "only this `KIND` of machine: auto, microvm, gvisor", Destination: &isolation},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &file},
			&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, such as 'enter/re*'; separate several with commas", Destination: &r.Only},
		},
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			// A scenario's name is not an argument, but people easily forget --only.
			if cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "bench %s takes no argument %q", name, cmd.Args().First()).WithHint("to choose scenarios: --only %s", cmd.Args().First())
			}
			// This very program, because whole commands are measured.
			if r.Binary, err = os.Executable(); err != nil {
				return err
			}
			if err := r.Begin(ctx, buildID()); err != nil {
				return err
			}
			p := a.newProgress()
			r.Progress, r.Home, r.Isolation = p.event, a.home, agentbox.Isolation(isolation)
			err = measure(ctx, &r)
			p.close()
			switch {
			case err != nil && ctx.Err() != nil:
				return ctx.Err() // rather than an error that the interrupt caused
			case err != nil:
				return err
			}
			return a.printReport(r.Report, file)
		},
	}
}

// printReport prints the report, and writes it to a file if one is named. The command fails if
// samples failed. --json without a file is the global flag, and means standard output.
func (a *app) printReport(report bench.Report, file string) error {
	if a.json && file == "" {
		file = "-"
	}
	if err := report.Print(a.stdout, file); err != nil {
		return err
	}
	if n := report.Failures(); n > 0 {
		fmt.Fprintf(a.stderr, "agentbox: %s failed\n", agentbox.Plural(n, "sample"))
		return exit(1)
	}
	return nil
}
