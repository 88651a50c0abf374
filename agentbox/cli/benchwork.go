package cli

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchWork measures the same work on the machine itself and in boxes, by turns.
func (a *app) benchWork(ctx context.Context, req benchRequest) (report bench.Report, err error) {
	report = newReport(ctx)
	p := a.newProgress()
	defer p.close()
	kinds, err := a.benchKinds(ctx, req, p.event)
	if err != nil {
		return report, interrupted(ctx, err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return report, agentbox.Errorf(agentbox.Invalid, "the current directory is gone: %w", err).WithHint("cd somewhere else")
	}
	lab, err := a.openLab(ctx, "", p.event)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	all, err := lab.Work(ctx, kinds, dir)
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
