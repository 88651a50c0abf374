package bench

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Scenario is one thing to measure. A Runner calls its funcs one at a time.
type Scenario struct {
	// Name is AREA/WHAT, for selection and in reports. Names that begin with native/, runsc/ or
	// peer/ measure something other than agentbox.
	Name      string
	Isolation agentbox.Isolation // of the boxes it measures; "" where there is none
	Accel     string             // kvm, hvf or tcg, for a microvm
	// Unit is Milliseconds or Bytes.
	Unit    string
	Ceiling float64 // in Unit: the deadline or the largest possible value. A failed sample counts as this
	// Baseline names another scenario that this one is compared with. Their samples are taken in
	// alternating runs.
	Baseline string
	Also     []Ref // further scenarios for comparison, in the same group and before this one
	// Group is what the scenario alternates with beside its baseline: all with the same Group, which
	// is not "". A baseline of such a scenario must have the same Group and come before it.
	Group string
	Most  int // the most samples to take; 0 for as many as of the others

	// Setup runs once before the first sample, and Teardown once after the last, even if Setup
	// failed. Either may be nil.
	Setup    func(ctx context.Context) error
	Teardown func(ctx context.Context) error
	// Measure takes one sample, in Unit. It decides which part counts, so it may prepare and clean
	// up. It must be callable again, even after an error.
	Measure func(ctx context.Context) (float64, error)
}

// InBoxes sets the boxes in which scenarios are measured. Where they have no unit or ceiling of
// their own, the unit is Milliseconds and the ceiling is the argument.
func InBoxes(box agentbox.Box, ceiling time.Duration, scenarios ...Scenario) []Scenario {
	for i := range scenarios {
		s := &scenarios[i]
		s.Isolation, s.Accel = box.Isolation, box.Accel
		s.Unit = cmp.Or(s.Unit, Milliseconds)
		s.Ceiling = cmp.Or(s.Ceiling, InMilliseconds(ceiling))
	}
	return scenarios
}

// Ref names a scenario of one kind of isolation, as the same scenario may be measured for each.
type Ref struct {
	Name      string
	Isolation agentbox.Isolation
}

// Select returns the scenarios whose names match one of the patterns (path.Match), or all when
// there are no patterns. The error is Invalid when none matches, or a pattern is malformed.
func Select(all []Scenario, patterns []string) ([]Scenario, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	var out []Scenario
	for _, s := range all {
		ok, err := Matches(s.Name, patterns)
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

// Matches reports whether name matches one of the patterns; with no patterns it always does.
func Matches(name string, patterns []string) (bool, error) {
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

func names(all []Scenario) string {
	var out []string
	for _, s := range all {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

// groups puts each scenario together with its Group, or with its baseline if that is selected too. A
// baseline comes before the scenarios that are compared with it. Otherwise the order stays the same.
func groups(all []Scenario) [][]Scenario {
	var out [][]Scenario
	at := map[string]int{}
	for _, s := range all {
		with := s.Baseline
		if s.Group != "" {
			with = "group " + s.Group
		}
		i, ok := at[with]
		if !ok || with == "" {
			i = len(out)
			out = append(out, nil)
		}
		at[s.Name] = i
		if s.Group != "" {
			at[with] = i
		}
		out[i] = append(out[i], s)
	}
	return out
}
