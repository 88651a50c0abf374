package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/bench"
)

// benchCommand groups the benchmarks. The verbs are here, the scenarios in package bench. A new
// benchmark is a scenario there and a line here.
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
				"Uses a temporary home and temporary repositories. Let nothing else run meanwhile.", 20, measureByKind(boxes((*bench.Lab).Enter))),
			a.benchWorkCommand(),
		},
	}
}

// benchRun is one run of a benchmark: what the user wants to measure, and the report. Not every
// benchmark uses all fields.
type benchRun struct {
	runs      int
	isolation string
	json      string // a file, "-" for standard output, "" for none
	only      []string

	a      *app
	say    agentbox.Progress
	report bench.Report // of this build on this machine, when the run began
}

// benchFunc takes measurements and adds them to the report.
type benchFunc func(context.Context, *benchRun) error

// maxRuns keeps a mistyped number from running for days.
const maxRuns = 10_000

// benchVerb returns the command of a benchmark. runs is the default number of samples. A benchmark
// that needs more flags adds them to the returned command. After a failure nothing is printed,
// because half a comparison misleads.
func (a *app) benchVerb(name, usage, description string, runs int, measure benchFunc) *cli.Command {
	r := &benchRun{a: a}
	return &cli.Command{
		Name: name, Usage: usage, Description: description,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: runs, Usage: "take `N` samples of each scenario", Destination: &r.runs},
			&cli.StringFlag{Name: "isolation", Usage: "only this `KIND` of machine: auto, microvm, gvisor", Destination: &r.isolation},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &r.json},
			&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, such as 'enter/re*'; separate several with commas", Destination: &r.only},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// A scenario's name is not an argument, but people easily forget --only.
			if cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "bench %s takes no argument %q", name, cmd.Args().First()).WithHint("to choose scenarios: --only %s", cmd.Args().First())
			}
			if r.runs < 1 || r.runs > maxRuns {
				return agentbox.Errorf(agentbox.Invalid, "--runs %d is not between 1 and %d", r.runs, maxRuns)
			}
			p := a.newProgress()
			r.say = p.event
			r.report = bench.Report{Schema: bench.Schema, Version: buildID(), Started: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(ctx)}
			err := measure(ctx, r)
			p.close()
			switch {
			case err != nil && ctx.Err() != nil:
				return ctx.Err() // rather than an error that the interrupt caused
			case err != nil:
				return err
			}
			return a.printReport(r.report, r.json)
		},
	}
}

// patterns returns the globs of --only, which may be repeated or separated by commas.
func (r *benchRun) patterns() []string {
	return strings.FieldsFunc(strings.Join(r.only, ","), func(r rune) bool { return r == ',' })
}

// choose returns the scenarios that --only selects. It is an error if there are none.
func (r *benchRun) choose(all []bench.Scenario) ([]bench.Scenario, error) {
	return bench.Select(all, r.patterns())
}

// measure measures the scenarios that --only selects.
func (r *benchRun) measure(ctx context.Context, all []bench.Scenario) error {
	scenarios, err := r.choose(all)
	if err != nil {
		return err
	}
	results, err := bench.Runner{Runs: r.runs, Progress: r.say}.Run(ctx, scenarios)
	r.report.Scenarios = append(r.report.Scenarios, results...)
	return err
}

// config returns the configuration of a lab for a kind of machine; "" means what auto means. A lab
// runs this very program, because whole commands are measured.
func (r *benchRun) config(kind agentbox.Isolation) (bench.Config, error) {
	self, err := os.Executable()
	return bench.Config{Home: r.a.home, Binary: self, Isolation: kind, Progress: r.say}, err
}

// inLab calls do with a lab: a home and repositories to measure in. Afterwards it ends the lab's
// daemon and removes everything.
func (r *benchRun) inLab(ctx context.Context, kind agentbox.Isolation, do func(*bench.Lab) error) error {
	cfg, err := r.config(kind)
	if err != nil {
		return err
	}
	lab, err := bench.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(do(lab), lab.Close(ctx))
}

// measureByKind measures one kind of isolation after the other: the requested one, or all that work
// here. Each has its own lab, because the page cache and the daemon of one would speed up the next.
func measureByKind(measure func(context.Context, *benchRun, *bench.Lab) error) benchFunc {
	return func(ctx context.Context, r *benchRun) error {
		kinds, err := r.kinds(ctx)
		for _, kind := range kinds {
			if err == nil {
				err = r.inLab(ctx, kind, func(lab *bench.Lab) error { return measure(ctx, r, lab) })
			}
		}
		return err
	}
}

// kinds returns the kinds of isolation to measure: the requested one, or those that work on this
// machine. A daemon has to find these out.
func (r *benchRun) kinds(ctx context.Context) (kinds []agentbox.Isolation, err error) {
	if r.isolation != "" {
		return []agentbox.Isolation{agentbox.Isolation(r.isolation)}, nil
	}
	err = r.inLab(ctx, "", func(lab *bench.Lab) (err error) {
		kinds, err = lab.Kinds(ctx)
		return err
	})
	return kinds, err
}

// printReport prints the report, and writes it to a file if one is named. The command fails if
// samples failed. --json without a file is the global flag, and means standard output.
func (a *app) printReport(report bench.Report, file string) error {
	if a.json && file == "" {
		file = "-"
	}
	if file != "-" {
		if err := report.WriteTable(a.stdout); err != nil {
			return err
		}
	}
	switch file {
	case "":
	case "-":
		if err := report.WriteJSON(a.stdout); err != nil {
			return err
		}
	default:
		if err := writeReport(report, file); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "cannot write the report to %s: %w", file, err)
		}
	}
	if n := report.Failures(); n > 0 {
		fmt.Fprintf(a.stderr, "agentbox: %s failed\n", agentbox.Plural(n, "sample"))
		return exit(1)
	}
	return nil
}

// writeReport replaces the file as a whole. A half-written report would look like a failed one.
func writeReport(report bench.Report, path string) error {
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes(), 0o644)
}
