package cli

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/bench"
)

// benchNetwork measures the network of boxes of one kind. end takes the servers and devices of the
// lab away.
func (a *app) benchNetwork(ctx context.Context, req benchRequest, kind agentbox.Isolation, say agentbox.Progress) (results []bench.Result, err error) {
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
