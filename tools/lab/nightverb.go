package main

import (
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/tools/lab/night"
)

// nightVerb is `lab night`.
func nightVerb(out io.Writer) *cli.Command {
	return verb("night", "measure a night of a team's tasks: simulated, on four machines, and at an owner of ten thousand",
		"night/simulated: by the rules of the daemons, 500 machines, half of them asleep at any time, run 20,000 tasks of three members; and what\n"+
			"they and the busiest owner send and receive, in bytes per second. night/queue-*: a daemon with 10,000 tasks for which there is no machine.\n"+
			"night/hundred: 100 tasks of 2 s on four machines with two places each, in network namespaces, and GNU parallel over ssh on the same.\n"+
			"The last needs root, parallel and sshd. Let nothing else run meanwhile.", 3, out,
		func(ctx context.Context, r *bench.Run) error {
			if err := r.Home.Create(); err != nil {
				return err
			}
			lab, err := OpenMeshLab(MeshConfig{Dir: r.Home.Dir, Binary: r.Binary, Progress: r.Progress})
			if err != nil {
				return err
			}
			q, h := newQueueLab(lab), newHundred(lab)
			all := append(append(simulatedNight(), q.scenarios()...), h.scenarios()...)
			return errors.Join(r.Measure(ctx, all), q.close(ctx), h.close(ctx), lab.Close())
		})
}

// simulatedNight is a night with another seed for each sample.
func simulatedNight() []bench.Scenario {
	var last night.Result
	seed := uint64(0)
	took := func(context.Context) (float64, error) {
		seed++
		last = night.Run(night.Office(seed))
		if last.GaveUp+last.Open+last.Twice > 0 {
			return 0, agentbox.Errorf(agentbox.Internal, "of 20,000 tasks %d gave up, %d are open, %d were done twice", last.GaveUp, last.Open, last.Twice)
		}
		return bench.InMilliseconds(last.Took), nil
	}
	const name = "night/simulated"
	ideal := bench.Scenario{Name: "night/simulated-ideal", Unit: bench.Milliseconds, Ceiling: meshCeiling, Measure: func(context.Context) (float64, error) {
		return bench.InMilliseconds(night.Run(night.Office(seed + 1)).Ideal), nil
	}}
	return []bench.Scenario{
		ideal,
		{Name: name, Baseline: ideal.Name, Unit: bench.Milliseconds, Ceiling: bench.InMilliseconds(night.Office(0).Length), Measure: took},
		counted("night/simulated-worker", meshCeiling, name, func() float64 { return last.Worker }),
		counted("night/simulated-owner", meshCeiling, name, func() float64 { return last.Owner }),
	}
}
