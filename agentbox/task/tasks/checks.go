package tasks

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/check"
	"agentbox/agentbox/config"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
)

// Checks runs the checks of repositories over work in the mirrors of projects (task.Checker).
type Checks struct {
	Home   home.Home
	Runner check.Runner
}

// Check runs a task's checks, as they were when it was submitted and if they are approved now.
func (c Checks) Check(ctx context.Context, t agentbox.Task, work task.Kept) []agentbox.CheckResult {
	p := project.Project{Name: t.Project}
	kept := snapshot.Rebuild(c.Home.Mirror(p.ID()), snapshot.Kept{Ref: work.Ref, Commit: work.Commit}, nil)
	return c.run(ctx, p, t.Checks, kept)
}

// Load has what a task's checks run, those that are approved, loaded soon.
func (c Checks) Load(t agentbox.Task) { c.load(project.Project{Name: t.Project}, t.Checks) }

func (c Checks) load(p project.Project, list []agentbox.Check) {
	approved := project.NewStore(c.Home)
	c.Runner.Load(slices.DeleteFunc(slices.Clone(list), func(one agentbox.Check) bool {
		ok, err := approved.HasApproved(p, consent.CheckAsk(one))
		return one.Unusable != "" || err != nil || !ok
	}))
}

func (c Checks) run(ctx context.Context, p project.Project, list []agentbox.Check, kept snapshot.Kept) []agentbox.CheckResult {
	approved := project.NewStore(c.Home)
	results := []agentbox.CheckResult{}
	for _, one := range list {
		result := agentbox.CheckResult{Name: one.Name, Module: one.Module}
		ok, err := approved.HasApproved(p, consent.CheckAsk(one))
		switch {
		case one.Unusable != "":
			result.Problem, result.Detail = agentbox.CheckUnusable, one.Unusable
		case err != nil:
			result.Problem, result.Detail = agentbox.CheckBroken, agentbox.AsError(err).Message
		case !ok:
			result.Problem = agentbox.CheckUnapproved
		default:
			if result, err = c.Runner.Run(ctx, one, kept); err != nil { // ctx has ended, and so has whoever asked
				return results
			}
		}
		results = append(results, result)
	}
	return results
}

func (c Checks) of(cfg *config.Config) ([]agentbox.Check, error) {
	return consent.Checks(cfg, func(wasm []byte) error {
		_, err := c.Runner.Keep(wasm)
		return err
	})
}

func (w Work) check(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.CheckedWork, error) {
	none := api.CheckedWork{}
	cfg, err := config.Load(ctx, ref.Directory)
	if err != nil {
		return none, err
	}
	p, err := sources.ProjectOf(ctx, ref.Directory)
	if err != nil {
		return none, err
	}
	list, err := w.Tasks.Checks.of(cfg)
	if err != nil {
		return none, err
	}
	if len(list) == 0 {
		return none, agentbox.Errorf(agentbox.NotFound, "%s has no checks", cfg.Source).WithHint("see checks: in docs/configuration.md")
	}
	kept, err := w.Find(ctx, &ref)
	if err != nil {
		return none, err
	}
	if kept == nil {
		w.Tasks.Checks.load(p, list)
		b, now, err := w.Boxes.Keep(ctx, ref, progress)
		if err != nil {
			return none, err
		}
		kept, ref.Box = &now, b.Name
	}
	out := api.CheckedWork{Name: ref.Box, Commit: kept.Commit, Checks: w.Tasks.Checks.run(ctx, p, list, *kept)}
	return out, ctx.Err()
}
