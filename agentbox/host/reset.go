package host

import (
	"context"
	"fmt"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
)

// Reset drops the runtime of a box, all of it, and starts from the template on the same workspace, as the directory's
// configuration says now. The old machine goes only when everything the new one needs is there.
func (m *Manager) Reset(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (agentbox.Box, error) {
	return m.operate(ctx, ref, func(b *box) error {
		rec := b.record()
		if err := m.reconfigure(ctx, &rec, progress); err != nil {
			return err
		}
		if !rec.Cold {
			if _, err := m.templates.Open(ctx, m.machine(rec), progress); err != nil {
				return err
			}
		}
		m.keepHistory(ctx, b, progress)
		if err := m.endMachine(b); err != nil {
			return err
		}
		if err := m.disk.dropSaved(rec); err != nil {
			return err
		}
		return m.newLife(ctx, b, rec, progress)
	})
}

// reconfigure makes a record follow what its directory's configuration says now, and what the user asked for when the box
// was made. A box whose directory is gone stays as it is.
func (m *Manager) reconfigure(ctx context.Context, rec *record, progress agentbox.Progress) error {
	if rec.Box.Directory == "" || directoryGone(*rec) {
		return nil
	}
	cfg, err := config.Load(ctx, rec.Box.Directory)
	if err != nil {
		return err
	}
	if err := rec.Overrides.Apply(cfg); err != nil {
		return err
	}
	if cfg.Isolation != agentbox.Auto && cfg.Isolation != rec.Box.Isolation && rec.Overrides.Isolation == "" {
		progress.Say(fmt.Sprintf("%s asks for %s, but box %s keeps its kind for life: %s. agentbox rm and up make another",
			filepath.Base(cfg.Path), cfg.Isolation, rec.Box.Name, rec.Box.Isolation))
	}
	choice, err := m.chooser.Keep(ctx, rec.Box)
	if err != nil {
		return err
	}
	return m.configure(ctx, rec, cfg, choice, progress)
}
