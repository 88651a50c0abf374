package host

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// guestWorkspace is the workspace in every box, whatever the checkout is called, so that paths in
// caches and templates are the same in all boxes.
const guestWorkspace = "/workspace"

// serviceLogs is where every guest agent writes the logs of services, in the runtime.
const serviceLogs = "/run/agentbox/log"

// connection says how to enter a box, in the directory subdir of its workspace, a relative path
// with slashes. It does not ask the box.
func (m *Manager) connection(ctx context.Context, rec record, subdir string) (api.Connection, error) {
	names := rec.names(m.home)
	key, err := os.ReadFile(names.Key())
	hostKey, hostErr := os.ReadFile(names.KnownHosts())
	if err := errors.Join(err, hostErr); err != nil {
		return api.Connection{}, agentbox.Errorf(agentbox.Unavailable, "box %s: %w", rec.Box.Name, err)
	}
	env := maps.Clone(rec.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, m.Policies.Placeholders(ctx, rec.subject(m.home)))
	if rec.Account != "" { // nothing replaces placeholders there, and nobody but us knows the environment
		env = map[string]string{}
		maps.Copy(env, rec.Guest.Env)
		maps.Copy(env, rec.Env)
		env[place.BoxVariable] = rec.Box.ID.String()
	}
	return api.Connection{
		Box: rec.Box.ID, Name: rec.Box.Name, Key: string(key), HostKey: string(hostKey),
		User: rec.User, Dir: path.Join(rec.workspace(), subdir), Env: env, ServiceLog: serviceLogs,
	}, nil
}

// SSH connects to the SSH server of a running box, for a client that cannot reach the box's socket.
func (m *Manager) SSH(ctx context.Context, ref api.BoxRef) (net.Conn, error) {
	b, err := m.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.home.Box(b.ID).SSH())
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "box %s does not answer: %w", b.Name, err).WithHint("agentbox show %s", b.Name)
	}
	return conn, nil
}

// Connect makes sure that a box runs, renews its lease, and says how to enter it. The command line
// then talks to the supervisor directly, so that a session does not depend on the daemon.
func (m *Manager) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	b, err := m.findRunning(ctx, ref, progress)
	if err != nil {
		return api.Connection{}, err
	}
	rec := b.record()
	return m.connection(ctx, rec, rec.subdirectory(ref.Directory))
}

// subdirectory maps the caller's directory to the same place in the box, relative to the
// repository's root; "" for a directory outside of the repository. Links are resolved first, as
// they were in the root of the checkout.
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
