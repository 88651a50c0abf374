package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Runner takes samples of scenarios, one at a time, because concurrent samples would disturb each
// other.
type Runner struct {
	Runs     int // samples of each scenario
	Progress agentbox.Progress
	// Budget is the time for all scenarios; 0 for any. Each group gets an equal part of what is left,
	// and ends early once it has one sample of each of its scenarios.
	Budget time.Duration

	watch *watch // attributes each sample; nil for none
}

// teardownTime bounds the cleanup of a scenario after its last sample, also after an interrupt.
const teardownTime = 2 * time.Minute

// Run takes all samples and returns a result for each scenario, in order. A scenario that fails has
// a result too, with all its samples at the ceiling. The only error is that of ctx.
func (r Runner) Run(ctx context.Context, scenarios []Scenario) ([]Result, error) {
	var out []Result
	all, begun := groups(scenarios), time.Now()
	for i, group := range all {
		var until time.Time
		if r.Budget > 0 {
			until = time.Now().Add(max(0, r.Budget-time.Since(begun)) / time.Duration(len(all)-i))
		}
		results, err := r.group(ctx, group, until)
		if err != nil {
			return nil, err
		}
		out = append(out, results...)
	}
	return out, nil
}

// scenarioRun is a scenario that is being measured.
type scenarioRun struct {
	Scenario
	broken  error // why Setup failed: no sample can succeed
	samples []float64
	failed  int
	reasons []string // of failures, each once
	loads   []Load   // by sample; none without a watch
	// took is the time of all samples, including what each does around the measured part.
	took time.Duration
}

// label distinguishes the same scenario of two kinds.
func (s *scenarioRun) label() string {
	if s.Isolation == "" {
		return s.Name
	}
	return s.Name + " " + string(s.Isolation)
}

// group measures a few scenarios in alternating runs, so that other load on the machine affects all
// of them alike. A Setup that fails makes every sample of its scenario a failure, and does not
// affect the others. No round begins after until, but for the first.
func (r Runner) group(ctx context.Context, group []Scenario, until time.Time) (results []Result, err error) {
	var tracks []*scenarioRun
	defer func() {
		for _, t := range tracks {
			r.teardown(ctx, t)
		}
	}()
	for _, s := range group {
		t := &scenarioRun{Scenario: s}
		tracks = append(tracks, t)
		if s.Setup != nil {
			t.broken = s.Setup(ctx)
		}
	}
	begun := time.Now()
	for run := range r.Runs {
		if run > 0 && !until.IsZero() && time.Now().Add(time.Since(begun)/time.Duration(run)).After(until) {
			break
		}
		if err := r.round(ctx, tracks, run, begun); err != nil {
			return nil, err
		}
	}
	for _, t := range tracks {
		results = append(results, t.result(results))
		r.ended(t)
	}
	return results, nil
}

func (r Runner) round(ctx context.Context, tracks []*scenarioRun, run int, begun time.Time) error {
	for _, t := range tracks {
		if t.Most > 0 && run >= t.Most {
			continue
		}
		r.sample(ctx, t, run, begun)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// left estimates, for people, the time until the end of a group from that of its first rounds.
func (r Runner) left(run int, begun time.Time) string {
	if run == 0 {
		return ""
	}
	each := time.Since(begun) / time.Duration(run)
	return ", " + (each * time.Duration(r.Runs-run)).Round(time.Second).String() + " left"
}

// giveUpAfter is how many first samples of a scenario fail before it is not tried any more: each may take
// minutes.
const giveUpAfter = 2

// sample takes one sample. A failed sample counts as the scenario's ceiling, so that failures make
// a result worse, never better. Samples that an interrupt cut short are dropped with the rest of
// the run.
func (r Runner) sample(ctx context.Context, t *scenarioRun, run int, begun time.Time) {
	r.event(agentbox.Event{Step: t.label(), Detail: fmt.Sprintf("%d of %d%s", run+1, r.Runs, r.left(run, begun)), Done: int64(run), Total: int64(r.Runs)})
	if r.watch != nil {
		r.watch.refresh()
	}
	start := time.Now()
	value, err := t.Ceiling, t.broken
	if err == nil {
		value, err = t.Measure(ctx)
	}
	took := time.Since(start)
	t.took += took
	if r.watch != nil {
		t.loads = append(t.loads, r.watch.last(t.length(value, took)))
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		value = t.Ceiling
		if t.failed++; t.failed == giveUpAfter && t.failed == len(t.samples)+1 && t.broken == nil {
			t.broken = fmt.Errorf("not tried again: %w", err)
		}
		t.because(err)
		r.Progress.Note(fmt.Sprintf("%s, run %d of %d failed: %v", t.label(), run+1, r.Runs, err))
	}
	// Three digits: microseconds. More would be noise.
	t.samples = append(t.samples, math.Round(value*1000)/1000)
}

// length returns the milliseconds of a sample: the whole time of a measurement that is not a time.
func (s *scenarioRun) length(value float64, took time.Duration) float64 {
	if s.Unit != Milliseconds {
		return InMilliseconds(took)
	}
	return min(value, InMilliseconds(took))
}

// maxReason bounds what of an error is kept, in bytes: a command may have written anything.
const maxReason = 300

// because keeps the reason of a failure.
func (s *scenarioRun) because(err error) {
	text := err.Error()
	why := agentbox.Printable(strings.ToValidUTF8(text[:min(len(text), maxReason)], ""))
	if !slices.Contains(s.reasons, why) {
		s.reasons = append(s.reasons, why)
	}
}

// result sums up the samples and compares them with the results before it in the group. A baseline
// is always in the same group and comes first (groups).
func (s *scenarioRun) result(before []Result) Result {
	out := Result{
		Name: s.Name, Isolation: string(s.Isolation), Accel: s.Accel, Unit: s.Unit, N: len(s.samples), Failures: s.failed, summary: summarize(s.samples), Samples: s.samples, Reasons: s.reasons, Loads: s.loads,
	}
	for _, b := range before {
		// If the median is a failure, a ratio would compare a ceiling.
		if b.P50 <= 0 || 2*b.Failures >= b.N || 2*out.Failures >= out.N {
			continue
		}
		if b.Name == s.Baseline {
			out.Baseline = &Baseline{Name: b.Name, P50: b.P50}
			out.Ratio = ratio(out.P50, b.P50)
			out.Interval = ratioInterval(out.Samples, b.Samples)
		}
		if slices.Contains(s.Also, Ref{b.Name, agentbox.Isolation(b.Isolation)}) {
			out.Comparisons = append(out.Comparisons, Comparison{Baseline{b.Name, b.P50}, b.Isolation, ratio(out.P50, b.P50)})
		}
	}
	return out
}

// ratio rounds to four digits, because more would be noise.
func ratio(ours, theirs float64) float64 { return math.Round(ours/theirs*10000) / 10000 }

// teardown cleans up after a scenario, also after an interrupt. It reports a failure as progress;
// the result stays the same.
func (r Runner) teardown(ctx context.Context, t *scenarioRun) {
	if t.Teardown == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTime)
	defer cancel()
	if err := t.Teardown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		r.Progress.Note(fmt.Sprintf("%s, cleaning up: %v", t.label(), err))
	}
}

// ended reports the result of a scenario while others are still to come.
func (r Runner) ended(t *scenarioRun) {
	s := summarize(t.samples)
	detail := fmt.Sprintf("%s, p50 %s, p95 %s %s", agentbox.Plural(len(t.samples), "run"), formatAmount(s.P50, t.Unit), formatAmount(s.P95, t.Unit), unitName(t.Unit))
	if t.failed > 0 {
		detail += fmt.Sprintf(", %d FAILED", t.failed)
	}
	r.event(agentbox.Event{Step: t.label(), Detail: detail, Ended: true, Took: t.took})
}

// event reports progress, if there is a receiver.
func (r Runner) event(e agentbox.Event) {
	if r.Progress != nil {
		r.Progress(e)
	}
}
