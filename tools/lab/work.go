package main

import (
	"context"
	"errors"
	"strings"

	"agentbox/agentbox"
	"agentbox/bench"
)

// workScenarios returns the scenarios of `agentbox bench work`. If a box runs in gVisor, each job
// also runs in a bare runsc, with which that box is compared, too.
func workScenarios(ctx context.Context, lab *bench.Lab, kinds []agentbox.Isolation, dir string) ([]bench.Scenario, error) {
	w, err := lab.OpenWork(ctx, kinds, dir)
	if err != nil {
		return nil, err
	}
	bares, noBare := []*bareTarget(nil), errors.New("no box runs in gVisor")
	for _, b := range w.Boxes {
		if b.Kind == agentbox.GVisor {
			bares, noBare = bareContainers(ctx, w, b, nil)
		}
	}
	if noBare != nil {
		lab.Say.Note("runsc/* is left out: " + noBare.Error())
	}
	return besideBoxes(w.Scenarios(), w.Jobs, bares), nil
}

// besideBoxes adds the jobs of bare containers to the scenarios of all jobs, each after the native
// one.
func besideBoxes(work []bench.Scenario, jobs []bench.Job, bares []*bareTarget) (all []bench.Scenario) {
	for _, s := range work {
		place, name, _ := strings.Cut(s.Name, "/")
		if s.Isolation == agentbox.GVisor {
			s.Also = append(s.Also, bench.Ref{Name: "runsc/" + name})
		}
		all = append(all, s)
		if place != "native" {
			continue
		}
		for _, j := range jobs {
			if j.Name == name {
				all = append(all, inBares(j, bares)...)
			}
		}
	}
	return all
}

// inBares returns the scenarios of a job in bare containers. They have neither Go's environment nor
// its cache.
func inBares(j bench.Job, bares []*bareTarget) (all []bench.Scenario) {
	if j.Name == bench.GoTest {
		return nil
	}
	for _, bare := range bares {
		all = append(all, bare.scenario(j))
	}
	return all
}

// tryScenarios returns scenarios of the same work in bare runscs: one that is configured as boxes
// are, which is the baseline, and one for each of the options in try. A sample is the processor time
// of the whole container, which depends little on other load.
func tryScenarios(ctx context.Context, lab *bench.Lab, dir string, try []string) ([]bench.Scenario, error) {
	w, err := lab.OpenWork(ctx, []agentbox.Isolation{agentbox.GVisor}, dir)
	if err != nil {
		return nil, err
	}
	bares, err := bareContainers(ctx, w, w.Boxes[0], try)
	if err != nil {
		return nil, err
	}
	var all []bench.Scenario
	for _, bare := range bares {
		bare.counted = true
	}
	for _, j := range w.Jobs {
		all = append(all, inBares(j, bares)...)
	}
	return all, nil
}
