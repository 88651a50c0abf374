package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"agentbox/bench"
)

// verbs lists the benchmarks. Their reports go to out.
func verbs(out io.Writer) []*cli.Command {
	return []*cli.Command{
		verb("tasks", "measure tasks: run, task submit, the result, attach",
			"task/begin lasts from the start of task submit until the command runs; task/result from the end of a command that changed 20 files\n"+
				"until its result is shown; task/attach until the job's output is shown. Let nothing else run meanwhile.", 20, out,
			func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, taskScenarios) }),
		verb("agent", "measure starting coding agents in boxes, compared with plain runsc",
			"From the start of the command line to the agent's first output, which is its version. Each agent is installed first, which\n"+
				"takes a minute or two; choose one with --only '*/*claude'. Let nothing else run meanwhile.", 20, out,
			func(ctx context.Context, r *bench.Run) error { return r.InBox(ctx, agentScenarios) }),
		workVerb(out),
		verb("network", "measure the network of boxes, compared with that of plain QEMU and runsc",
			"A program in the box moves 64 MiB each way and opens connections, to a server on this machine. Needs root to measure plain runsc.\n"+
				"Let nothing else run meanwhile.", 10, out, measureNetwork),
		storeVerb(out), meshVerb(out), nightVerb(out), contextVerb(out), meshNodeVerb(out), sourceVerb(out), pageVerb(out),
	}
}

// measureNetwork measures the network of boxes of each kind. After each it removes the servers and
// devices of the lab.
func measureNetwork(ctx context.Context, r *bench.Run) error {
	return r.ByKind(ctx, func(lab *bench.Lab) error {
		all, end, err := networkScenarios(ctx, lab)
		if err != nil {
			return err
		}
		return errors.Join(r.Measure(ctx, all), end())
	})
}

// workVerb is `lab work`: the jobs of `agentbox bench work`, and the same in a plain runsc. --try is
// for finding what makes a plain runsc faster, and measures no boxes.
func workVerb(out io.Writer) *cli.Command {
	var try []string
	cmd := verb("work", "measure builds and tests on this machine, in boxes and in plain runsc",
		"Needs gcc, make and the network, for the source of zlib. Let nothing else run meanwhile.", 5, out,
		func(ctx context.Context, r *bench.Run) error { return measureWork(ctx, r, try) })
	cmd.Flags = append(cmd.Flags, &cli.StringSliceFlag{
		Name: "try", Destination: &try,
		Usage: "measure instead the processor time of plain runsc without and with `OPTION`: a runsc flag (--try=--dcache=0), an annotation, or tmpfs:DIR; separate several with commas",
	})
	return cmd
}

// measureWork measures real work. The two measurements answer different questions, so a run makes
// only one of them.
func measureWork(ctx context.Context, r *bench.Run, try []string) error {
	kinds, err := r.Kinds(ctx)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	return r.InLab(ctx, "", func(lab *bench.Lab) error {
		all, err := []bench.Scenario(nil), error(nil)
		if len(try) > 0 {
			all, err = tryScenarios(ctx, lab, dir, try)
		} else {
			all, err = workScenarios(ctx, lab, kinds, dir)
		}
		if err != nil {
			return err
		}
		return r.Measure(ctx, all)
	})
}
