package host

import (
	"context"
	"path"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/templates"
)

// guestWorkspace is where every box has its workspace.
const guestWorkspace = "/workspace"

// serviceLogs is where every box has the logs of its services.
const serviceLogs = "/run/agentbox/log"

func (m *Manager) connection(rec record, subdir string) api.Connection {
	names := rec.names(m.home)
	return api.Connection{
		Box: rec.Box.ID, Name: rec.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts(),
		User: rec.User, Dir: path.Join(guestWorkspace, subdir), Env: m.Policies.Placeholders(rec.subject()),
		Console: filepath.Join(rec.lifeDir(m.home), templates.ConsoleFile), Log: names.Log(), ServiceLog: serviceLogs,
	}
}

// Connect makes sure that a box runs, renews its lease, and says how to get in.
func (m *Manager) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	b, err := m.awake(ctx, ref, progress)
	if err != nil {
		return api.Connection{}, err
	}
	rec := b.record()
	return m.connection(rec, rec.subdirectory(ref.Directory)), nil
}

// subdirectory is where in its box a caller in dir wants to be: the same place relative to the
// repository's root.
func (r record) subdirectory(dir string) string {
	if dir == "" || r.Box.Directory == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(r.Box.Directory, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}
