package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// Run is one run of a benchmark: what is to be measured, and the report.
type Run struct {
	Runs int // samples of each scenario
	// Isolation is the kind of all boxes; "" for each kind that works here, one after the other.
	Isolation agentbox.Isolation
	Only      []string // patterns of Select, each of which may be several, separated by commas
	Argument  string   // of the verb; "" for none
	File      string   // for the JSON: Report.Print
	Page      string   // the file for the HTML; "" for none
	Baseline  string   // the file of a report that the page compares with; "" for none
	History   string   // the file of reports that this one is added to; "" for none
	Home      home.Home
	Binary    string // the agentbox to measure
	Progress  agentbox.Progress
	Budget    time.Duration // of Runner
	Pressure  bool          // watch the machine meanwhile (Load)

	Report Report
}

// maxRuns keeps a mistyped number from running for days.
const maxRuns = 10_000

// Begin starts the report of a build of agentbox on this machine, with this user's home.
func (r *Run) Begin(ctx context.Context, build string) (err error) {
	if r.Home, err = home.Find(); err != nil {
		return err
	}
	if r.Runs < 1 || r.Runs > maxRuns {
		return agentbox.Errorf(agentbox.Invalid, "--runs %d is not between 1 and %d", r.Runs, maxRuns)
	}
	r.Report = Report{Schema: Schema, Version: build, Started: time.Now().UTC().Truncate(time.Second), Machine: ThisMachine(ctx)}
	return nil
}

// Patterns returns the patterns of Only one by one.
func (r *Run) Patterns() []string {
	return strings.FieldsFunc(strings.Join(r.Only, ","), func(r rune) bool { return r == ',' })
}

// Measure measures the scenarios that Only selects. It is an error if there are none.
func (r *Run) Measure(ctx context.Context, all []Scenario) error {
	scenarios, err := Select(all, r.Patterns())
	if err != nil {
		return err
	}
	runner := Runner{Runs: r.Runs, Progress: r.Progress, Budget: r.Budget}
	if r.Pressure {
		if runner.watch, err = newWatch(ctx, string(filepath.Separator)+labPrefix); err != nil {
			return err
		}
		defer runner.watch.end()
	}
	results, err := runner.Run(ctx, scenarios)
	r.Report.Scenarios = append(r.Report.Scenarios, results...)
	if w := runner.watch; w != nil {
		r.Report.Timeline = w.timeline()
		if why := whyNoPressure(w.now()); why != "" {
			r.Report.Missing = append(r.Report.Missing, Missing{"pressure", why})
		}
	}
	return err
}

// LabConfig returns the configuration of a Lab for a kind of machine; "" for the kind that a new
// box gets.
func (r *Run) LabConfig(kind agentbox.Isolation) Config {
	return Config{Home: r.Home, Binary: r.Binary, Isolation: kind, Progress: r.Progress}
}

// InLab calls do with a Lab, and closes it afterwards.
func (r *Run) InLab(ctx context.Context, kind agentbox.Isolation, do func(*Lab) error) error {
	lab, err := Open(ctx, r.LabConfig(kind))
	if err != nil {
		return err
	}
	return errors.Join(do(lab), lab.Close(ctx))
}

// ByKind calls do for one kind of isolation after the other. Each has its own Lab, because the page
// cache and the daemon of one would speed up the next.
func (r *Run) ByKind(ctx context.Context, do func(*Lab) error) error {
	kinds, err := r.Kinds(ctx)
	for _, kind := range kinds {
		if err == nil {
			err = r.InLab(ctx, kind, do)
		}
	}
	return err
}

// Kinds returns the kinds of isolation to measure: the requested one, or those that work on this
// machine. A daemon has to find these out.
func (r *Run) Kinds(ctx context.Context) (kinds []agentbox.Isolation, err error) {
	if r.Isolation != "" {
		return []agentbox.Isolation{r.Isolation}, nil
	}
	err = r.InLab(ctx, "", func(lab *Lab) (err error) {
		kinds, err = lab.Kinds(ctx)
		return err
	})
	return kinds, err
}

// InBox measures the scenarios of a warm box of each kind. of makes them. It is called twice: first
// with an empty box, only to check that a pattern matches before minutes are spent on warming up.
func (r *Run) InBox(ctx context.Context, of func(*Lab, agentbox.Box) []Scenario) error {
	return r.ByKind(ctx, func(lab *Lab) error {
		if _, err := Select(of(lab, agentbox.Box{}), r.Patterns()); err != nil {
			return err
		}
		end := r.Progress.Begin("warm-up", "image, kernel, template")
		box, err := lab.WarmUp(ctx)
		if err != nil {
			return err
		}
		end(strings.TrimSuffix(fmt.Sprint(box.Isolation, "/", box.Accel), "/"))
		return r.Measure(ctx, of(lab, box))
	})
}
