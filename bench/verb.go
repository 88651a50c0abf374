package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Verb describes the command of a benchmark. `agentbox bench` and tools/lab make theirs of it, so
// that all have the same flags and the same report.
type Verb struct {
	Name, Usage, Description string
	// ArgsUsage is the one argument that it takes; "" for none.
	ArgsUsage string
	Runs      int // the default number of samples
	Measure   func(context.Context, *Run) error
}

// Frame is what differs between the programs that have verbs.
type Frame struct {
	Out io.Writer
	// Begin sets Binary and Progress of a run, and begins its report. end is called after the
	// last progress.
	Begin func(ctx context.Context, r *Run) (end func(), err error)
}

// Failed is the error of a complete report with failed samples.
type Failed struct{ Samples int }

// Error says how many.
func (f Failed) Error() string { return agentbox.Plural(f.Samples, "sample") + " failed" }

// Command returns the command. After a failure nothing is printed, because half a comparison
// misleads. After samples that failed the report is printed, and the error is Failed.
func (v Verb) Command(f Frame) *cli.Command {
	var r Run
	return &cli.Command{
		Name: v.Name, Usage: v.Usage, Description: v.Description, ArgsUsage: v.ArgsUsage, Flags: r.flags(v.Runs),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// A scenario's name is not an argument, but people easily forget --only.
			if n := cmd.Args().Len(); n > 1 || n == 1 && v.ArgsUsage == "" {
				return agentbox.Errorf(agentbox.Invalid, "%s takes no argument %q", v.Name, cmd.Args().Get(n-1)).WithHint("to choose scenarios: --only %s", cmd.Args().Get(n-1))
			}
			r.Argument = cmd.Args().First()
			if r.Baseline != "" && r.Page == "" {
				return agentbox.Errorf(agentbox.Invalid, "--baseline is for the page of --html").WithHint("agentbox bench compare compares two reports")
			}
			end, err := f.Begin(ctx, &r)
			if err != nil {
				return err
			}
			err = v.Measure(ctx, &r)
			end()
			switch {
			case err != nil && ctx.Err() != nil:
				return ctx.Err() // rather than an error that the interrupt caused
			case err != nil:
				return err
			}
			var courses []Course
			if r.History != "" {
				all, err := r.Report.AddToHistory(r.History)
				if err != nil {
					return err
				}
				courses = Courses(all, pageTolerance)
			}
			if err := errors.Join(r.writePage(courses), r.Report.Print(f.Out, r.File)); err != nil {
				return err
			}
			if n := r.Report.Failures(); n > 0 {
				return Failed{n}
			}
			return nil
		},
	}
}

// writePage writes the HTML page, if one is asked for.
func (r *Run) writePage(courses []Course) error {
	if r.Page == "" {
		return nil
	}
	var b bytes.Buffer
	var baseline *Report
	if r.Baseline != "" {
		before, err := ReadReportFile(r.Baseline)
		if err != nil {
			return err
		}
		baseline = &before
	}
	err := r.Report.WritePage(&b, filepath.Base(r.Baseline), baseline, courses)
	if err == nil {
		err = durable.WriteFile(r.Page, b.Bytes(), 0o644)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot write the page to %s: %w", r.Page, err)
	}
	return nil
}

// flags are those of every benchmark.
func (r *Run) flags(runs int) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "runs", Value: runs, Usage: "take `N` samples of each scenario", Destination: &r.Runs},
		&cli.StringFlag{Name: "isolation", Usage: "only this `KIND` of machine: " + agentbox.IsolationWords(), Destination: (*string)(&r.Isolation)},
		&cli.StringFlag{Name: "json", Usage: "write the report to `FILE`, - for standard output", Destination: &r.File},
		&cli.StringFlag{Name: "html", Usage: "write a page with drawings to `FILE`, which needs no other file", Destination: &r.Page},
		&cli.StringFlag{Name: "baseline", Usage: "compare on that page with the report in `FILE`", Destination: &r.Baseline},
		&cli.StringFlag{Name: "history", Usage: "add the report to the reports in `FILE`, which agentbox bench history draws, and draw them on that page", Destination: &r.History},
		&cli.StringSliceFlag{Name: "only", Usage: "only scenarios whose name matches `GLOB`, such as '*/re*'; separate several with commas", Destination: &r.Only},
	}
}
