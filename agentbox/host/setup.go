package host

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/setup"
)

// setUp runs the configuration's setup commands once for each workspace, in order, as the box's
// user. A failure leaves the box as it is, so that somebody can look into it; the next up tries
// again.
func (m *Manager) setUp(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if !rec.setupDue() {
		return nil
	}
	if err := setup.Run(ctx, rec.inside(m.home), "setup", rec.Setup, hintOf("setup", rec), progress); err != nil {
		return err
	}
	return b.change(m.home, func(rec *record) { rec.SetUp = true })
}

// onStart runs the commands of the configuration that belong to every start of a machine, once
// setup has succeeded. A failure leaves the machine as it is, and is written down for those that
// use it later. That is why it is no reason for up to fail later: the box is there and can be
// looked into.
func (m *Manager) onStart(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if len(rec.Start) == 0 || !rec.StartDue || rec.setupDue() {
		return nil
	}
	err := setup.Run(ctx, rec.inside(m.home), "start", rec.Start, hintOf("start", rec), progress)
	var why string
	switch {
	case ctx.Err() != nil:
		why = "start of box " + rec.Box.Name + " was interrupted"
	case err != nil:
		why = agentbox.AsError(err).Message
	}
	return errors.Join(err, b.change(m.home, func(rec *record) { rec.StartDue, rec.StartErr = false, why }))
}

// hintOf says what to do when commands of a step, "setup" or "start", failed.
func hintOf(step string, rec record) string {
	again := "agentbox up"
	switch {
	case rec.Task: // which is gone by the time somebody reads this
		return "agentbox up makes a box that stays, to look into"
	case step == "start":
		again = "agentbox reset"
	}
	return "the box is there: agentbox shell " + rec.Box.Name + "; " + again + " tries again"
}

// setupOf is what is to be made for a box before it is. Its clean boxes are like the box of this
// record.
func (m *Manager) setupOf(rec record, cfg *config.Config) setup.Request {
	clean := cleanBoxes{m.maker, rec}
	return setup.Request{
		Config: cfg, Agent: rec.Overrides.Tools, Project: rec.Box.Project, Directory: rec.Box.Directory, Branch: rec.Box.Branch, Detached: rec.Detached, User: rec.User, Suite: rec.Suite,
		Clean: clean.withFiles, Empty: clean.empty,
	}
}
