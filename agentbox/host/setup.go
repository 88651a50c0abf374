package host

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/serving"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/place"
)

// setUp runs the configuration's setup commands once for each workspace, in order, as the box's
// user. After a failure the box stays as it is, for somebody to look into; the next up tries again.
func (m *Manager) setUp(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if !rec.setupDue() {
		return nil
	}
	if err := setup.Run(ctx, rec.setupBox(m.home), "setup", rec.Setup, hintOf("setup", rec), progress); err != nil {
		return err
	}
	return b.change(m.home, func(rec *record) { rec.SetUp = true })
}

// onStart runs the commands that the configuration has for every start of a machine, once setup has
// succeeded and the services are ready, which migrations need. After a failure the machine stays as
// it is, and the failure is recorded for later users of the box. A later up does not fail because of
// it.
func (m *Manager) onStart(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if len(rec.Start) == 0 || !rec.StartDue || rec.setupDue() {
		return nil
	}
	if err := m.machines.awaitServices(ctx, b, progress); err != nil {
		return err
	}
	err := setup.Run(ctx, rec.setupBox(m.home), "start", rec.Start, hintOf("start", rec), progress)
	var why string
	switch {
	case ctx.Err() != nil:
		why = "start of box " + rec.Box.Name + " was interrupted"
	case err != nil:
		why = agentbox.AsError(err).Message
	}
	return errors.Join(err, b.change(m.home, func(rec *record) { rec.StartDue, rec.StartErr = false, why }))
}

// awaitServices waits for the services of a box, see serving.Await.
func (m *machines) awaitServices(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	status := func(ctx context.Context) (place.Status, error) { return m.status(ctx, b) }
	return serving.Await(ctx, rec.Box.Name, rec.Guest.Services, status, progress)
}

// hintOf says what to do when commands of a step, "setup" or "start", have failed.
func hintOf(step string, rec record) string {
	again := "agentbox up"
	switch {
	case rec.Task: // the box is gone by the time somebody reads this
		return "agentbox up makes a box that stays, to look into"
	case step == "start":
		again = "agentbox reset"
	}
	return "the box is there: agentbox shell " + rec.Box.Name + "; " + again + " tries again"
}

// setupOf is the request for the tools and the setup result of a box that is to be made like rec.
func (m *Manager) setupOf(rec record, cfg *config.Config) setup.Request {
	clean := cleanBoxes{m.maker, rec}
	return setup.Request{
		Config: cfg, Agent: rec.Overrides.Tools, Project: rec.Box.Project, Directory: rec.root(m.home), Branch: rec.Box.Branch, Detached: rec.Detached, User: rec.User,
		Clean: clean.withFiles, Empty: clean.empty,
	}
}
