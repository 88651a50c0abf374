package bench

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Scenario is one thing to measure. Its funcs are called one at a time, by a Runner.
type Scenario struct {
	// Name is AREA/WHAT, as it is selected by and reported under. Names that begin with native/,
	// runsc/ or peer/ are not of agentbox.
	Name      string
	Isolation agentbox.Isolation // of the boxes it measures; "" where there is none
	Accel     string             // kvm, hvf or tcg, for a microvm
	// Unit is Milliseconds or Bytes.
	Unit    string
	Ceiling float64 // in Unit: the deadline, or the most there can be. A failed sample counts as this much
	// Baseline names another scenario that this one is compared with: samples of the two are taken
	// in alternating runs.
	Baseline string
	Also     []Ref // scenarios of the same group, before this one, that it is compared with besides

	// Setup comes once before the first sample, and Teardown once after the last, also when Setup
	// failed. Either may be nil.
	Setup    func(ctx context.Context) error
	Teardown func(ctx context.Context) error
	// Measure takes one sample. Only what it chooses to measure counts, so it may prepare and clean
	// up at leisure. It leaves things so that it can be called again, after an error too.
	Measure func(ctx context.Context) (float64, error)
}

// inBoxes says of scenarios in which boxes they are measured. They take milliseconds, and ceiling at
// most, where they do not say otherwise.
func inBoxes(box agentbox.Box, ceiling time.Duration, scenarios ...Scenario) []Scenario {
	for i := range scenarios {
		s := &scenarios[i]
		s.Isolation, s.Accel = box.Isolation, box.Accel
		s.Unit = cmp.Or(s.Unit, Milliseconds)
		s.Ceiling = cmp.Or(s.Ceiling, milliseconds(ceiling))
	}
	return scenarios
}

// sharing gives scenarios what they are measured on: the first that is set up makes it, and the
// first whose turn is over ends it. So both may be called again and do nothing.
func sharing(setup, teardown func(ctx context.Context) error, scenarios ...Scenario) []Scenario {
	for i := range scenarios {
		scenarios[i].Setup, scenarios[i].Teardown = setup, teardown
	}
	return scenarios
}

// counted is a scenario whose value another one, of, has found on its way; 0 is none.
func counted(name string, ceiling float64, of string, value func() float64) Scenario {
	return Scenario{Name: name, Unit: Bytes, Ceiling: ceiling, Measure: func(context.Context) (float64, error) {
		if value() == 0 {
			return 0, agentbox.Errorf(agentbox.Invalid, "it is counted in %s: measure both", of)
		}
		return value(), nil
	}}
}

// oneByOne gives the times that a batch took one by one, and has another batch when none is left:
// one swarm gives as many samples as it has machines.
func oneByOne(batch func(ctx context.Context) ([]time.Duration, error)) func(ctx context.Context) (time.Duration, error) {
	var left []time.Duration
	return func(ctx context.Context) (took time.Duration, err error) {
		if len(left) == 0 {
			if left, err = batch(ctx); err != nil {
				return 0, err
			}
		}
		took, left = left[0], left[1:]
		return took, nil
	}
}

// Ref names the scenario of one kind of isolation: the same scenario is measured for each.
type Ref struct {
	Name      string
	Isolation agentbox.Isolation
}

// Select gives the scenarios whose names match one of the patterns (path.Match), or all without a
// pattern. Invalid when none does, or one is no pattern.
func Select(all []Scenario, patterns []string) ([]Scenario, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	var out []Scenario
	for _, s := range all {
		ok, err := matches(s.Name, patterns)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, agentbox.Errorf(agentbox.Invalid, "no scenario matches %s", strings.Join(patterns, ", ")).WithHint("there are %s", names(all))
	}
	return out, nil
}

// matches tells whether a scenario is meant by one of the patterns; without any it is.
func matches(name string, patterns []string) (bool, error) {
	for _, p := range patterns {
		ok, err := path.Match(p, name)
		if err != nil {
			return false, agentbox.Errorf(agentbox.Invalid, "%q is not a pattern: %w", p, err).WithHint("* stands for any characters but /")
		}
		if ok {
			return true, nil
		}
	}
	return len(patterns) == 0, nil
}

// names lists what there is, for a hint.
func names(all []Scenario) string {
	var out []string
	for _, s := range all {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

// groups puts each scenario together with its baseline, where that was selected too. A baseline
// comes before what is compared with it. The order stays otherwise.
func groups(all []Scenario) [][]Scenario {
	var out [][]Scenario
	at := map[string]int{}
	for _, s := range all {
		i, ok := at[s.Baseline]
		if !ok || s.Baseline == "" {
			i = len(out)
			out = append(out, nil)
		}
		at[s.Name] = i
		out[i] = append(out[i], s)
	}
	return out
}
