package host

import (
	"context"
	"os"
	"path"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/workspace"
)

// Up creates the box of a directory and its branch, or finds it and makes sure that it runs.
func (m *Manager) Up(ctx context.Context, req api.UpRequest, progress agentbox.Progress) (api.UpResponse, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return api.UpResponse{}, err
		}
	}
	repo, err := workspace.Describe(ctx, req.Directory)
	if err != nil {
		return api.UpResponse{}, err
	}
	cfg, err := config.Load(ctx, req.Directory)
	if err != nil {
		return api.UpResponse{}, err
	}
	var agent agents.Profile
	if req.Agent != "" {
		if agent, err = m.consent.Agent(ctx, repo.Root, req.Agent, req.Environ); err != nil {
			return api.UpResponse{}, err
		}
	}
	over, err := flags.Of(req, cfg, agent)
	if err != nil {
		return api.UpResponse{}, err
	}
	if err := over.Check(); err != nil {
		return api.UpResponse{}, err
	}
	for _, w := range cfg.Warnings {
		progress.Say(w)
	}
	if err := m.Policies.Remember(req.Environ); err != nil {
		return api.UpResponse{}, err
	}
	mine, err := m.Policies.Store.Of(repo.Root)
	if err != nil {
		return api.UpResponse{}, err
	}
	key := boxKey(cfg.Lifetime, repo, mine)
	if req.Task {
		key = "" // nobody finds it again
	} else {
		defer m.keys.Lock(key)()
		if b := m.boxes.byKey(key); b != nil {
			return m.reattach(ctx, b, plan{req: req, repo: repo, cfg: cfg, overrides: over, agent: agent}, progress)
		}
	}
	if err := over.Apply(cfg); err != nil {
		return api.UpResponse{}, err
	}
	if err := checkSubdir(ctx, req, repo); err != nil {
		return api.UpResponse{}, err
	}
	m.boxes.sayUnread(progress) // one of them may be what the user expects here
	wish := isolation.WishOf(req.Isolation, cfg, req.Environ)
	b, err := m.create(ctx, plan{req: req, repo: repo, cfg: cfg, key: key, overrides: over, isolation: wish}, progress)
	if err != nil {
		return api.UpResponse{}, err
	}
	if err := m.recall(ctx, b, agent, progress); err != nil {
		return api.UpResponse{}, err
	}
	return m.readyResponse(ctx, b, req, repo, true, progress)
}

// checkSubdir fails when a command is to run in a directory that the new box will not have: before anything is made.
func checkSubdir(ctx context.Context, req api.UpRequest, repo workspace.Repo) error {
	if !req.Command || repo.Subdir == "" {
		return nil
	}
	has, err := workspace.HasFilesIn(ctx, repo, repo.Subdir)
	if err != nil || has {
		return err
	}
	return agentbox.Errorf(agentbox.Invalid, "the box will not have %s: it holds nothing but what git ignores", repo.Subdir).
		WithHint("run the command from %s, or use --workdir", repo.Root)
}

// readyResponse answers when a command can run in the box.
func (m *Manager) readyResponse(ctx context.Context, b *box, req api.UpRequest, repo workspace.Repo, created bool, progress agentbox.Progress) (api.UpResponse, error) {
	if req.Command {
		if err := m.awaitServices(ctx, b, progress); err != nil {
			return api.UpResponse{}, err
		}
	}
	return m.upResponse(ctx, b, repo.Subdir, created, progress)
}

// reattach makes an existing box run. What the configuration says now takes effect at the next reset.
func (m *Manager) reattach(ctx context.Context, b *box, p plan, progress agentbox.Progress) (api.UpResponse, error) {
	req, repo := p.req, p.repo
	if req.Name != "" && req.Name != b.record().Box.Name {
		return api.UpResponse{}, agentbox.Errorf(agentbox.Exists, "%s already has box %s for branch %s", repo.Root, b.record().Box.Name, repo.Branch).
			WithHint("agentbox fork --name %s makes another one like it", req.Name)
	}
	if err := isolation.Check(b.record().Box, req.Isolation); err != nil {
		return api.UpResponse{}, err
	}
	if err := m.tellChanges(b, p.cfg, p.overrides, progress); err != nil {
		return api.UpResponse{}, err
	}
	if err := m.regovern(ctx, b, p, progress); err != nil {
		return api.UpResponse{}, err
	}
	if err := m.wake(ctx, b, progress); err != nil {
		return api.UpResponse{}, err
	}
	if why := b.record().StartErr; why != "" {
		progress.Say(agentbox.Problem{Kind: agentbox.ProblemStart, Detail: why}.String())
	}
	if err := m.addAgent(ctx, b, p.cfg, p.overrides, progress); err != nil {
		return api.UpResponse{}, err
	}
	if err := m.setUp(ctx, b, progress); err != nil {
		return api.UpResponse{}, err
	}
	if err := m.onStart(ctx, b, progress); err != nil { // if setup failed until now
		return api.UpResponse{}, err
	}
	if err := m.recall(ctx, b, p.agent, progress); err != nil {
		return api.UpResponse{}, err
	}
	return m.readyResponse(ctx, b, req, repo, false, progress)
}

func (m *Manager) upResponse(ctx context.Context, b *box, subdir string, created bool, progress agentbox.Progress) (api.UpResponse, error) {
	shown, err := m.describe(ctx, b, brief)
	if err != nil {
		return api.UpResponse{}, err
	}
	for _, p := range shown.Problems {
		if p.Kind == agentbox.ProblemUnlogged || p.Kind == agentbox.ProblemNoCard {
			progress.Say("box " + shown.Name + ": " + p.String())
		}
	}
	return api.UpResponse{Box: shown, Created: created, Connection: m.connection(b.record(), subdir)}, nil
}

// guestWorkspace is where every box has its workspace.
const guestWorkspace = "/workspace"

// serviceLogs is where every box has the logs of its services.
const serviceLogs = "/run/agentbox/log"

func (m *Manager) connection(rec record, subdir string) api.Connection {
	names := rec.names(m.home)
	return api.Connection{
		Box: rec.Box.ID, Name: rec.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts(),
		User: rec.User, Dir: path.Join(guestWorkspace, subdir), Env: m.Policies.Placeholders(m.governed(rec), rec.Seed),
		Console: filepath.Join(rec.lifeDir(m.home), templates.ConsoleFile), Log: names.Log(), ServiceLog: serviceLogs,
	}
}

// Connect makes sure that a box runs, renews its lease, and says how to get in.
func (m *Manager) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return api.Connection{}, err
	}
	if err := m.wake(ctx, b, progress); err != nil {
		return api.Connection{}, err
	}
	rec := b.record()
	return m.connection(rec, m.subdirectory(ctx, rec, ref.Directory)), nil
}

// subdirectory is where in its box a caller in dir wants to be: the same place relative to the repository's root.
func (m *Manager) subdirectory(_ context.Context, rec record, dir string) string {
	if dir == "" || rec.Box.Directory == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(rec.Box.Directory, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// directoryGone tells whether the checkout a box was made from no longer exists.
func directoryGone(rec record) bool {
	if rec.Box.Directory == "" {
		return false
	}
	_, err := os.Stat(rec.Box.Directory)
	return os.IsNotExist(err)
}
