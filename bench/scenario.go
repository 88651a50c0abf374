package bench

import (
	"context"
	"path"
	"strings"

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
