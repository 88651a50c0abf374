package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox/lastbench"
	"agentbox/bench"
)

// benchCommand groups the benchmarks that users run. The verbs are here, the scenarios in package
// bench. What compares our own parts with other programs is a program of its own, tools/lab.
func (a *app) benchCommand() *cli.Command {
	var commands []*cli.Command
	for _, v := range benchVerbs {
		commands = append(commands, a.benchVerb(v))
	}
	var o bench.ProjectOptions
	cmd := a.benchVerb(bench.Verb{
		Name: "bench", Usage: "measure a repository's own commands, in boxes and on this machine", ArgsUsage: "[REPO]", Runs: 20,
		Description: `Runs what bench: in agentbox.yaml names, or else what the files of REPO suggest, in a new box of each kind that works here, first with cold
and then with warm caches, and measures how long it takes to enter such a box. Everything happens in temporary homes, which get what is
approved for the repository. With --native the same commands also run directly on this machine, in turns with the boxes: with your
rights and outside of any box, in a copy of the repository. Let nothing else run meanwhile.`,
		Measure: func(ctx context.Context, r *bench.Run) error { return benchProject(ctx, r, o) },
	})
	cmd.Category, cmd.Commands = catHost, append(commands, a.benchPeers(), a.benchFidelity(), a.benchTasks(), a.benchCompare(), a.benchHistory())
	cmd.Flags = append(cmd.Flags,
		&cli.BoolFlag{Name: "native", Usage: "also run the commands on this machine itself, outside of any box", Destination: &o.Native},
		&cli.BoolFlag{Name: "quick", Usage: "take fewer samples, within 5 minutes if the commands allow it", Destination: &o.Quick},
		&cli.BoolFlag{Name: "fidelity", Usage: "also say what works of a workstation in these boxes, as bench fidelity does", Destination: &o.Fidelity},
		&cli.StringFlag{Name: "concurrency", Value: "1", Usage: "also let `N` agents work at once, each in a box: 1,2,4", Destination: &o.Concurrency},
		&cli.StringFlag{Name: "profile", Usage: "what these agents do, from `FILE`: think, and commands", Destination: &o.Load})
	return cmd
}

// benchPeers is `bench peers`.
func (a *app) benchPeers() *cli.Command {
	return a.benchVerb(bench.Verb{
		Name: "peers", Usage: "measure a repository's own commands in boxes, by bubblewrap, podman, runsc and sandbox-runtime, and on this machine", ArgsUsage: "[REPO]", Runs: 20,
		Description: `As bench --native, and also by the other programs that are installed here. Those run the machine's own tools, of which only the copy of
the repository can be written. The exact commands are printed; what is not installed is named.`,
		Measure: func(ctx context.Context, r *bench.Run) error {
			return benchProject(ctx, r, bench.ProjectOptions{Peers: true, Concurrency: "1"})
		},
	})
}

// benchFidelity is `bench fidelity`.
func (a *app) benchFidelity() *cli.Command {
	all := false
	cmd := a.benchVerb(bench.Verb{
		Name: "fidelity", Usage: "say what works of a workstation in a box of each kind, and what to do where it does not", Runs: 1,
		Description: "Runs small programs in a box as a repository without configuration gets it. --only 'fidelity/in*' chooses some.",
		Measure:     func(ctx context.Context, r *bench.Run) error { return r.Fidelity(ctx, all) },
	})
	cmd.Flags = append(cmd.Flags, &cli.BoolFlag{Name: "all", Usage: "also check what needs more packages: containers, databases, a browser, debuggers, native npm programs", Destination: &all})
	return cmd
}

// benchProject measures the repository of the argument, or of the current directory.
func benchProject(ctx context.Context, r *bench.Run, o bench.ProjectOptions) error {
	dir, err := currentDir()
	if err == nil && r.Argument != "" {
		dir, err = filepath.Abs(r.Argument)
	}
	if err != nil {
		return err
	}
	err = r.MeasureProject(ctx, dir, o)
	_ = lastbench.Keep(dir, r.Report) // that it cannot be kept is no failure of the benchmark
	return err
}

// benchVerbs are the benchmarks that users run.
var benchVerbs = []bench.Verb{
	{
		Name: "enter", Usage: "measure entering boxes: complete commands, as you type them", Runs: 20,
		Description: "Uses a temporary home and temporary repositories. Let nothing else run meanwhile.",
		Measure:     func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, (*bench.Lab).Enter) },
	},
	{
		Name: "idle", Usage: "measure what you feel of tasks that run here for others", Runs: 20,
		Description: "A program wakes up a hundred times a second and works for a millisecond: how late it is done, while nothing else runs, while a\n" +
			"task of another member keeps each CPU busy, and while you take the machine back. Then, how long it takes until those tasks stand still,\n" +
			"and until nothing of them is left; and until a task of another member runs here. Uses two temporary homes. Let nothing else run.",
		Measure: func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, (*bench.Lab).Idle) },
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
	r.Progress = p.event
	return p.close, r.Begin(ctx, buildID())
}
