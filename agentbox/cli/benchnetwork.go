package cli

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchNetwork measures one kind after the other: the one asked for, or all that work here.
func (a *app) benchNetwork(ctx context.Context, req benchRequest) (bench.Report, error) {
	report := newReport(ctx)
	p := a.newProgress()
	defer p.close()
	kinds, err := a.benchKinds(ctx, req, p.event)
	if err != nil {
		return report, interrupted(ctx, err)
	}
	for _, kind := range kinds {
		results, err := a.benchNetworkKind(ctx, req, kind, p.event)
		if err != nil {
			return report, interrupted(ctx, err)
		}
		report.Scenarios = append(report.Scenarios, results...)
	}
	return report, nil
}

func (a *app) benchNetworkKind(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress) (results []bench.Result, err error) {
	lab, err := a.openLab(ctx, kind, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	all, end, err := lab.Network(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	scenarios, err := bench.Select(all, req.patterns())
	if err != nil {
		return nil, err
	}
	return bench.Runner{Runs: req.runs, Progress: say}.Run(ctx, scenarios)
}
