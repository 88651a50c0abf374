package cli

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchEnter measures stepping into boxes of one kind.
func (a *app) benchEnter(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress) ([]bench.Result, error) {
	return a.benchBoxes(ctx, req, kind, say, (*bench.Lab).Enter)
}

// benchTasks measures handing work over to boxes of one kind.
func (a *app) benchTasks(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress) ([]bench.Result, error) {
	return a.benchBoxes(ctx, req, kind, say, (*bench.Lab).Tasks)
}

// benchAgents measures opening agents in boxes of one kind.
func (a *app) benchAgents(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress) ([]bench.Result, error) {
	return a.benchBoxes(ctx, req, kind, say, (*bench.Lab).Agents)
}

// benchBoxes measures scenarios of a lab of its own. of makes the scenarios for a box. They are
// made twice: once for a box of nothing, only to see whether a pattern matches any, and then for
// the one that is warm.
func (a *app) benchBoxes(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress, of func(*bench.Lab, agentbox.Box) []bench.Scenario) (results []bench.Result, err error) {
	lab, err := a.openLab(ctx, kind, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	if _, err := bench.Select(of(lab, agentbox.Box{}), req.patterns()); err != nil {
		return nil, err // before minutes are spent on warming up
	}
	end := say.Begin("warm-up", "image, kernel, template")
	box, err := lab.WarmUp(ctx)
	if err != nil {
		return nil, err
	}
	end(isolationText(box))
	scenarios, err := bench.Select(of(lab, box), req.patterns())
	if err != nil {
		return nil, err
	}
	return bench.Runner{Runs: req.runs, Progress: say}.Run(ctx, scenarios)
}
