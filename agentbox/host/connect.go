package host

import (
	"context"
	"path"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/templates"
)

// guestWorkspace is where every box has its workspace, whatever the checkout is called: paths in
// caches and templates are the same in all boxes.
const guestWorkspace = "/workspace"

// serviceLogs is where every box has the logs of its services. The guest agent writes them; they go
// with the machine's runtime.
const serviceLogs = "/run/agentbox/log"

// connection says how to get into a box of this record, in the directory subdir of its workspace,
// which is relative and has slashes. It asks nothing of the box.
func (m *Manager) connection(rec record, subdir string) api.Connection {
	names := rec.names(m.home)
	return api.Connection{
		Box: rec.Box.ID, Name: rec.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts(),
		User: rec.User, Dir: path.Join(guestWorkspace, subdir), Env: m.Policies.Placeholders(rec.subject()),
		Console: filepath.Join(rec.lifeDir(m.home), templates.ConsoleFile), Log: names.Log(), ServiceLog: serviceLogs,
	}
}

// Connect makes sure that a box runs, renews its lease, and says how to get in. The command line
// then talks to the supervisor by itself, so that a session does not depend on the daemon.
func (m *Manager) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	b, err := m.awake(ctx, ref, progress)
	if err != nil {
		return api.Connection{}, err
	}
	rec := b.record()
	return m.connection(rec, rec.subdirectory(ref.Directory)), nil
}

// subdirectory is where in its box a caller in dir wants to be: the same place relative to the
// repository's root. Anywhere else, it is the workspace itself: the command was probably meant for
// the box and not for the place. Links are resolved first, as the root of the checkout is.
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
