package main

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
)

// sharing gives scenarios a common subject. The first Setup makes it and the first Teardown ends
// it, so both must do nothing when called again.
func sharing(setup, teardown func(ctx context.Context) error, scenarios ...bench.Scenario) []bench.Scenario {
	for i := range scenarios {
		scenarios[i].Setup, scenarios[i].Teardown = setup, teardown
	}
	return scenarios
}

// counted is a scenario whose value the scenario of determines as a by-product; 0 means not yet.
func counted(name string, ceiling float64, of string, value func() float64) bench.Scenario {
	return bench.Scenario{Name: name, Unit: bench.Bytes, Ceiling: ceiling, Measure: func(context.Context) (float64, error) {
		if value() == 0 {
			return 0, agentbox.Errorf(agentbox.Invalid, "it is counted in %s: measure both", of)
		}
		return value(), nil
	}}
}

// oneByOne returns the times of a batch one at a time, and runs another batch when none is left. So
// one swarm provides as many samples as it has machines.
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
