package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"agentbox/bench"
)

// benchWorkCommand is `bench work`. --try is for those who look for what makes a bare runsc faster,
// and has nothing to do with boxes.
func (a *app) benchWorkCommand() *cli.Command {
	var try []string
	cmd := a.benchVerb("work", "measure builds and tests, on this machine itself and in boxes",
		"Needs gcc, make and the network, for the source of zlib. Let nothing else run meanwhile.", 5,
		func(ctx context.Context, req benchRequest) (bench.Report, error) {
			req.try = try
			return a.benchWork(ctx, req)
		})
	cmd.Flags = append(cmd.Flags, &cli.StringSliceFlag{
		Name: "try", Destination: &try,
		Usage: "measure instead the processor time of a bare runsc without and with `OPTION`: a flag of runsc's (--try=--dcache=0), an annotation, or tmpfs:DIR; several with commas",
	})
	return cmd
}

// benchWork measures the same work on the machine itself and in boxes, in alternating runs.
func (a *app) benchWork(ctx context.Context, req benchRequest) (report bench.Report, err error) {
	report = newReport(ctx)
	p := a.newProgress()
	defer p.close()
	kinds, err := a.benchKinds(ctx, req, p.event)
	if err != nil {
		return report, interrupted(ctx, err)
	}
	// Builds are those of the repository where we are, and of zlib.
	dir, err := here()
	if err != nil {
		return report, err
	}
	lab, err := a.openLab(ctx, "", p.event)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	// Two questions, of which one run answers one.
	measure := func() ([]bench.Scenario, error) { return lab.Work(ctx, kinds, dir) }
	if len(req.try) > 0 {
		measure = func() ([]bench.Scenario, error) { return lab.Tries(ctx, dir, req.try) }
	}
	all, err := measure()
	if err != nil {
		return report, interrupted(ctx, err)
	}
	scenarios, err := bench.Select(all, req.patterns())
	if err != nil {
		return report, err
	}
	report.Scenarios, err = bench.Runner{Runs: req.runs, Progress: p.event}.Run(ctx, scenarios)
	return report, interrupted(ctx, err)
}
