package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// journal records what happens to scenarios, in order.
type journal struct{ lines []string }

func (j *journal) scenario(name, baseline string, values ...float64) Scenario {
	i := 0
	note := func(what string) func(context.Context) error {
		return func(context.Context) error {
			j.lines = append(j.lines, what+" "+name)
			return nil
		}
	}
	return Scenario{
		Name: name, Unit: Milliseconds, Ceiling: 1000, Baseline: baseline, Setup: note("setup"), Teardown: note("teardown"),
		Measure: func(context.Context) (float64, error) {
			j.lines = append(j.lines, name)
			v := values[i%len(values)]
			i++
			if v < 0 {
				return 3, errors.New("no luck")
			}
			return v, nil
		},
	}
}

func TestRunnerAlternatesWithBaseline(t *testing.T) {
	var j journal
	all := []Scenario{j.scenario("a/base", "", 100, 200), j.scenario("a/other", "", 1), j.scenario("a/ours", "a/base", 10, 30)}
	results, err := Runner{Runs: 2}.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"setup a/base", "setup a/ours", "a/base", "a/ours", "a/base", "a/ours", "teardown a/base", "teardown a/ours",
		"setup a/other", "a/other", "a/other", "teardown a/other",
	}
	if !slices.Equal(j.lines, want) {
		t.Errorf("order:\n got %q\nwant %q", j.lines, want)
	}
	ours := results[1]
	if ours.Baseline == nil || *ours.Baseline != (Baseline{"a/base", 100}) || ours.Ratio != 0.1 {
		t.Errorf("baseline %+v, ratio %v; want a/base at 100 and 0.1", ours.Baseline, ours.Ratio)
	}
	if results[0].Baseline != nil || results[2].Baseline != nil {
		t.Error("a baseline nobody asked for")
	}
}

// Three scenarios of one group: each but the first is compared with the baseline, and the last also
// with its counterpart of the other kind.
func TestRunnerComparesKinds(t *testing.T) {
	var j journal
	all := []Scenario{j.scenario("native/a", "", 10), j.scenario("work/a", "native/a", 30), j.scenario("work/a", "native/a", 120)}
	all[1].Isolation, all[2].Isolation = agentbox.GVisor, agentbox.MicroVM
	all[2].Also = []Ref{{"work/a", agentbox.GVisor}}
	results, err := Runner{Runs: 1}.Run(t.Context(), all)
	if err != nil || len(results) != 3 {
		t.Fatalf("%+v, %v", results, err)
	}
	want := Comparison{Baseline{"work/a", 30}, "gvisor", 4}
	last := results[2]
	if results[1].Ratio != 3 || results[1].Comparisons != nil || last.Ratio != 12 || len(last.Comparisons) != 1 || last.Comparisons[0] != want {
		t.Errorf("%+v", results)
	}
	if got := comparison(last); got != "12.000 of native/a, 4.000 of work/a gvisor" {
		t.Errorf("the table says %q", got)
	}
}

func TestRunnerCountsFailuresAtTheCeiling(t *testing.T) {
	var j journal
	var said []string
	progress := func(e agentbox.Event) {
		if e.Note {
			said = append(said, e.Detail)
		}
	}
	results, err := Runner{Runs: 3, Progress: progress}.Run(t.Context(), []Scenario{j.scenario("a/b", "", 5, -1, 6.00049)})
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if r.N != 3 || r.Failures != 1 || !slices.Equal(r.Samples, []float64{5, 1000, 6}) || r.Max != 1000 {
		t.Errorf("got %+v", r)
	}
	if len(said) != 1 || said[0] != "a/b, run 2 of 3 failed: no luck" {
		t.Errorf("said %q", said)
	}
}

func TestRunnerNoRatioOfFailures(t *testing.T) {
	var j journal
	results, err := Runner{Runs: 2}.Run(t.Context(), []Scenario{j.scenario("base", "", -1), j.scenario("ours", "base", 4)})
	if err != nil {
		t.Fatal(err)
	}
	if results[1].Baseline != nil || results[1].Ratio != 0 {
		t.Errorf("compared with a baseline that failed: %+v", results[1])
	}
}

func TestRunnerFailedSetup(t *testing.T) {
	var j journal
	s := j.scenario("a/b", "", 1)
	s.Setup = func(context.Context) error { return errors.New("no repository") }
	results, err := Runner{Runs: 4}.Run(t.Context(), []Scenario{s})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Failures != 4 || r.P50 != 1000 {
		t.Errorf("got %+v", r)
	}
	if !slices.Equal(j.lines, []string{"teardown a/b"}) {
		t.Errorf("happened: %q", j.lines)
	}
}

func TestRunnerStopsWhenInterrupted(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	s := j.scenario("a/b", "", 1)
	s.Measure = func(context.Context) (float64, error) {
		cancel()
		return 0, context.Canceled
	}
	var tornDown error = errors.New("not called")
	s.Teardown = func(ctx context.Context) error {
		tornDown = ctx.Err()
		return nil
	}
	results, err := Runner{Runs: 3}.Run(ctx, []Scenario{s, j.scenario("c/d", "", 1)})
	if !errors.Is(err, context.Canceled) || results != nil {
		t.Errorf("got %v, %v; an interrupted run has no results", results, err)
	}
	if tornDown != nil {
		t.Errorf("teardown cannot work: %v", tornDown)
	}
	if len(j.lines) != 1 || j.lines[0] != "setup a/b" {
		t.Errorf("went on: %q", j.lines)
	}
}

func TestSelect(t *testing.T) {
	all := []Scenario{{Name: "enter/exec"}, {Name: "enter/resume"}, {Name: "enter/reset"}}
	for _, c := range []struct {
		patterns []string
		want     string
	}{
		{nil, "enter/exec, enter/resume, enter/reset"},
		{[]string{"enter/re*"}, "enter/resume, enter/reset"},
		{[]string{"*/reset", "enter/exec", "*/exec"}, "enter/exec, enter/reset"},
	} {
		got, err := Select(all, c.patterns)
		if err != nil || names(got) != c.want {
			t.Errorf("%q: got %s, %v; want %s", c.patterns, names(got), err, c.want)
		}
	}
	for _, bad := range []string{"exec", "["} {
		if _, err := Select(all, []string{bad}); agentbox.CodeOf(err) != agentbox.Invalid || agentbox.AsError(err).Hint == "" {
			t.Errorf("%q: got %v, want an invalid pattern with a hint", bad, err)
		}
	}
	if _, err := Select(all, []string{"x"}); !strings.Contains(agentbox.AsError(err).Hint, "enter/exec") {
		t.Errorf("the hint does not say what there is: %v", err)
	}
}

// All of a group take turns, but for those with fewer samples. A budget that is used up leaves one
// sample of each.
func TestRunnerGroupsAndBudget(t *testing.T) {
	var j journal
	a, b, c := j.scenario("a", "", 1), j.scenario("b", "", 1), j.scenario("c", "", 1)
	a.Group, c.Group, a.Most = "g", "g", 1
	if _, err := (Runner{Runs: 2}).Run(t.Context(), []Scenario{a, b, c}); err != nil {
		t.Fatal(err)
	}
	want := []string{"setup a", "setup c", "a", "c", "c", "teardown a", "teardown c", "setup b", "b", "b", "teardown b"}
	if !slices.Equal(j.lines, want) {
		t.Errorf("order:\n got %q\nwant %q", j.lines, want)
	}
	results, err := Runner{Runs: 100, Budget: 1}.Run(t.Context(), []Scenario{b, c})
	if err != nil || results[0].N != 1 || results[1].N != 1 {
		t.Errorf("%+v, %v", results, err)
	}
}

// What fails from the start is not tried for ever: each time may take minutes.
func TestRunnerGivesUp(t *testing.T) {
	var j journal
	results, err := Runner{Runs: 6}.Run(t.Context(), []Scenario{j.scenario("a/never", "", -1), j.scenario("a/often", "", 5, -1, -1)})
	if err != nil {
		t.Fatal(err)
	}
	tries := map[string]int{}
	for _, line := range j.lines {
		tries[line]++
	}
	if tries["a/never"] != giveUpAfter || tries["a/often"] != 6 || results[0].Failures != 6 || results[1].Failures != 4 {
		t.Errorf("%v, %+v", tries, results)
	}
}
