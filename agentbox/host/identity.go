package host

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/project"
)

// Origins says what boxes are made of.
type Origins struct{ m *Manager }

// OriginsOf returns what the boxes of m are made of.
func OriginsOf(m *Manager) Origins { return Origins{m} }

// Identity is what a box is made of, as far as this host decided it: without the work in it, and with
// the names of its lockfiles only.
func (o Origins) Identity(ctx context.Context, ref api.BoxRef) (identity.Document, error) {
	m := o.m
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return identity.Document{}, err
	}
	rec := b.record()
	d := identity.Document{
		Project: rec.Box.Project, Branch: rec.Box.Branch, Commit: rec.Box.Commit, Image: rec.Box.Image, Arch: runtime.GOARCH, Isolation: rec.Box.Isolation,
		Policy: rec.Approved, Environment: slices.Sorted(maps.Keys(rec.Guest.Env)), Box: rec.Box.Name,
	}
	if !rec.Box.Cache.IsZero() {
		d.Setup = &identity.Setup{Key: rec.Box.Cache, Result: rec.SetupResult}
	}
	if rec.Kernel != "" {
		d.Kernel = filepath.Base(rec.Kernel)
	}
	d.Lockfiles = map[string]string{}
	if cfg, err := config.LoadAt(ctx, rec.place(m.home)); err == nil { // a broken one names none
		for _, name := range cfg.Lockfiles {
			d.Lockfiles[path.Join(filepath.ToSlash(rec.Subdir), name)] = ""
		}
	}
	secrets, err := m.Policies.Store.SecretsFor(project.Project{Name: rec.Box.Project})
	for _, s := range secrets {
		d.Secrets = append(d.Secrets, s.Name)
	}
	slices.Sort(d.Secrets)
	d.Secrets = slices.Compact(d.Secrets)
	return d, err
}
