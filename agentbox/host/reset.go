package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/plan"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

// Reset drops the whole runtime of a box and gives it a new machine on the same workspace, with the
// configuration that its directory has now. A box that was made to boot, although its kind has
// templates, is restored from then on, so that it can be paused. The old machine ends only when
// everything the new one needs is here. So after an earlier failure, such as an image that cannot
// be fetched, the box runs as it was; a later crash leaves a stopped box with its workspace.
func (m *Manager) Reset(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	return m.operate(ctx, ref, func(b *box) error {
		u := &creation{b: b, rec: b.record(), previous: b.record().Box}
		if err := m.reconfigure(ctx, u, progress); err != nil {
			return err
		}
		rec := u.rec
		if err := m.keepLastHistory(ctx, b, progress); err != nil {
			return err
		}
		if err := b.end(); err != nil {
			return err
		}
		if err := errors.Join(giveUp(m, b), m.disk.dropKept(rec, true)); err != nil {
			return err
		}
		rec.MovedTo, rec.PausedFor, rec.Arrived = nil, "", b.record().Arrived
		return m.newLife(ctx, b, rec, progress)
	})
}

// reconfigure updates a record with the directory's present configuration and the flags that the
// box was made with, and gets everything a new machine starts from. A box whose directory is gone
// keeps its record.
func (m *Manager) reconfigure(ctx context.Context, u *creation, progress agentbox.Progress) (err error) {
	u.rec.NoTemplate, u.Results, u.Templates = false, m.setup.Results != nil, m.disk.prepares(u.rec.Box.Isolation)
	p := plan.Restart(u.Facts)
	if root := u.rec.root(m.home); root != "" && !workspace.IsDeleted(root) {
		if u.Config, err = config.LoadAt(ctx, u.rec.place(m.home)); err != nil {
			return err
		}
		for _, w := range u.Config.Warnings {
			progress.Note(w)
		}
		if err := u.rec.Overrides.Apply(u.Config); err != nil {
			return err
		}
		if cfg := u.Config; cfg.Isolation != agentbox.Auto && cfg.Isolation != u.rec.Box.Isolation && u.rec.Overrides.Isolation == "" {
			progress.Note(fmt.Sprintf("%s asks for %s, but box %s keeps its kind of isolation, %s: to change it, use agentbox rm and agentbox up",
				filepath.Base(cfg.Path), cfg.Isolation, u.rec.Box.Name, u.rec.Box.Isolation))
		}
		if u.Kind, err = m.chooser.ChooseExisting(ctx, u.rec.Box); err != nil {
			return err
		}
		if u.project, err = project.Identify(ctx, root); err != nil {
			return err
		}
		if u.Review, err = m.consent.Review(ctx, u.project, root, u.Config, u.rec.flagsNow()); err != nil {
			return err
		}
		p = plan.Reset(u.Facts)
	}
	return m.execute(ctx, u, p, progress)
}
