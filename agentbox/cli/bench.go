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

// benchCommand groups the benchmarks. The verbs are here, what they measure is the package bench: a
// scenario there, and a line here.
func (a *app) benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Category: catHost, Usage: "measure agentbox on this machine",
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return agentbox.Errorf(agentbox.Invalid, "bench knows no %q", name).WithHint("agentbox bench --help lists what can be measured")
			}
			return cli.ShowSubcommandHelp(cmd)
		},
		Commands: []*cli.Command{
			a.benchVerb("enter", "measure stepping into boxes: whole commands, as you type them",
				"Works in a home and in repositories of its own, which are gone afterwards. Let nothing else run meanwhile.", 20, a.byKind(a.benchEnter)),
			a.benchVerb("tasks", "measure handing work over: run, task submit, its result, attach",
				"task/begin is from the start of task submit until the command runs, task/result from the end of a command that has changed 20 files\n"+
					"until its result is shown, task/attach until the job's output is. Let nothing else run meanwhile.", 20, a.byKind(a.benchTasks)),
			a.benchVerb("agent", "measure opening coding agents in boxes that have them, beside a bare runsc",
				"From the start of the command line to the agent's first output, which is its version. Each agent is installed first, which\n"+
					"takes a minute or two: --only '*/*claude'. Let nothing else run meanwhile.", 20, a.byKind(a.benchAgents)),
			a.benchWorkCommand(),
			a.benchVerb("network", "measure the network of boxes beside that of QEMU and of runsc themselves",
				"A program in the box moves 64 MiB each way and opens connections, to a server on this machine. Needs root for the one of\n"+
					"runsc itself. Let nothing else run meanwhile.", 10, a.byKind(a.benchNetwork)),
			a.benchStoreCommand(), a.benchMeshCommand(), a.benchMeshNode(),
		},
	}
}

// benchRequest is what the user wants measured, and where the report goes. Not every benchmark
// looks at all of it.
type benchRequest struct {
	runs      int
	isolation string
	json      string // a file, - for standard output, "" for none
	only      []string
	try       []string // what a bare runsc is tried with, of bench work
}

// maxRuns keeps a mistyped number from running for days.
const maxRuns = 10_000

// benchVerb is a benchmark that takes a benchRequest: runs is how many samples are taken where
// nobody says. A benchmark that needs more flags adds them to what it returns.
func (a *app) benchVerb(name, usage, description string, runs int, measure benchFunc) *cli.Command {
	var req benchRequest
	return &cli.Command{
		Name: name, Usage: usage, Description: description,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "runs", Value: runs, Usage: "take `N` samples of each scenario", Destination: &req.runs},
			&cli.StringFlag{Name: "isolation", Usage: "only this `KIND` of machine: auto, microvm, gvisor", Destination: &req.isolation},
			&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &req.json},
			&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, as '" + name + "/re*'; several with commas", Destination: &req.only},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// A scenario's name is not an argument, but --only is easily forgotten.
			if cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "bench %s takes no argument %q", name, cmd.Args().First()).WithHint("--only %s", cmd.Args().First())
			}
			if req.runs < 1 || req.runs > maxRuns {
				return agentbox.Errorf(agentbox.Invalid, "--runs %d is not between 1 and %d", req.runs, maxRuns)
			}
			report, err := measure(ctx, req)
			if err != nil {
				return err
			}
			return a.printReport(report, req.json)
		},
	}
}

// patterns are the globs of --only. They may be given as several flags or in one with commas.
func (r benchRequest) patterns() []string {
	return strings.FieldsFunc(strings.Join(r.only, ","), func(r rune) bool { return r == ',' })
}

// newReport is an empty report of this build on this machine, as of now.
func newReport(ctx context.Context) bench.Report {
	return bench.Report{Schema: bench.Schema, Version: buildID(), Started: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(ctx)}
}

// openLab makes a home and repositories to measure in; kind is "" for what auto means. The caller
// closes it, which ends its daemon and removes everything.
func (a *app) openLab(ctx context.Context, kind agentbox.Isolation, say agentbox.Progress) (*bench.Lab, error) {
	// Whole commands are measured, so the lab runs this very program.
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return bench.Open(ctx, bench.Config{Home: a.home, Binary: self, Isolation: kind, Progress: say})
}

// benchFunc measures whatever a benchmark measures; kindFunc does so for one kind of machine.
type (
	benchFunc func(context.Context, benchRequest) (bench.Report, error)
	kindFunc  func(context.Context, benchRequest, agentbox.Isolation, agentbox.Progress) ([]bench.Result, error)
)

// byKind measures one kind after the other: the one asked for, or all that work here. Each has a
// lab of its own: the page cache and the daemon of one would help the other.
func (a *app) byKind(measure kindFunc) benchFunc {
	return func(ctx context.Context, req benchRequest) (bench.Report, error) {
		report := newReport(ctx)
		p := a.newProgress()
		defer p.close()
		kinds, err := a.benchKinds(ctx, req, p.event)
		if err != nil {
			return report, interrupted(ctx, err)
		}
		for _, kind := range kinds {
			// What was measured before a failure is not printed: half a comparison misleads.
			results, err := measure(ctx, req, kind, p.event)
			if err != nil {
				return report, interrupted(ctx, err)
			}
			report.Scenarios = append(report.Scenarios, results...)
		}
		return report, nil
	}
}

// benchKinds are the kinds to measure: the one asked for, or those that work on this machine, which
// a daemon has to find out.
func (a *app) benchKinds(ctx context.Context, req benchRequest, say agentbox.Progress) (kinds []agentbox.Isolation, err error) {
	if req.isolation != "" {
		return []agentbox.Isolation{agentbox.Isolation(req.isolation)}, nil
	}
	lab, err := a.openLab(ctx, "", say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	return lab.Kinds(ctx)
}

// interrupted prefers "interrupted" to what the interrupt broke.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// printReport prints the report, and writes it to a file if one is named. Failed samples make the
// command fail. --json without a file is the global flag, and means standard output.
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

// writeReport replaces the file as a whole. A report that is half written would be taken for one
// that failed.
func writeReport(report bench.Report, path string) error {
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes(), 0o644)
}
