package host

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/toolchain"
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
	over, err := m.overridesOf(req, cfg)
	if err != nil {
		return api.UpResponse{}, err
	}
	if err := over.check(); err != nil {
		return api.UpResponse{}, err
	}
	for _, w := range cfg.Warnings {
		progress.Say(w)
	}
	if err := m.policies.remember(req.Environ); err != nil {
		return api.UpResponse{}, err
	}
	mine, err := m.policies.store.Of(repo.Root)
	if err != nil {
		return api.UpResponse{}, err
	}
	key := boxKey(cfg.Lifetime, repo, mine)
	if req.Ephemeral || req.Task {
		key = "" // nobody finds it again
	} else {
		lock := m.keyLock(key)
		lock.Lock()
		defer lock.Unlock()
		if b := m.byKey(key); b != nil {
			return m.reattach(ctx, b, plan{req: req, repo: repo, cfg: cfg, overrides: over}, progress)
		}
	}
	if err := over.apply(cfg); err != nil {
		return api.UpResponse{}, err
	}
	if err := checkSubdir(ctx, req, repo); err != nil {
		return api.UpResponse{}, err
	}
	m.sayUnread(progress) // one of them may be what the user expects here
	isolation := wishOf(req.Isolation, cfg, req.Environ)
	b, err := m.create(ctx, plan{req: req, repo: repo, cfg: cfg, key: key, overrides: over, isolation: isolation}, progress)
	if err != nil {
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

func (m *Manager) overridesOf(req api.UpRequest, cfg *config.Config) (overrides, error) {
	o := overrides{
		Image: req.Image, Isolation: req.Isolation, CPUs: req.CPUs, Memory: req.Memory,
		Variables: includeVariables(cfg, req.Environ),
	}
	if req.Agent == "" {
		return o, nil
	}
	profile, err := agents.Find(m.home.Agents(), req.Agent)
	if err != nil {
		return o, err
	}
	o.Agent = profile.Name
	o.Tools, err = profile.Needs()
	return o, err
}

// check holds what was asked for on the command line to the bounds that configurations have.
func (o overrides) check() error {
	if o.CPUs != 0 && (o.CPUs < agentbox.MinCPUs || o.CPUs > agentbox.MaxCPUs) {
		return agentbox.Errorf(agentbox.Invalid, "--cpus %d is out of range: %d to %d", o.CPUs, agentbox.MinCPUs, agentbox.MaxCPUs)
	}
	if o.Memory == "" {
		return nil
	}
	memory, err := config.ParseSize(o.Memory)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "--memory: %w", err)
	}
	if memory < agentbox.MinMemory || memory > agentbox.MaxMemory {
		return agentbox.Errorf(agentbox.Invalid, "--memory %s is out of range: %s to %s", o.Memory,
			config.FormatSize(agentbox.MinMemory), config.FormatSize(agentbox.MaxMemory))
	}
	return nil
}

func (o overrides) apply(cfg *config.Config) (err error) {
	if o.Image != "" {
		cfg.Image, cfg.Packages = o.Image, nil
		switch apt := strings.HasPrefix(o.Image, "apt:"); {
		case !apt:
			cfg.Toolchain = nil // only an image of the distribution takes more packages
		case cfg.Path == "":
			cfg.Packages = toolchain.Workstation
		}
	}
	if o.CPUs > 0 {
		cfg.CPUs = o.CPUs
	}
	if o.Memory != "" {
		if cfg.Memory, err = config.ParseSize(o.Memory); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "memory: %w", err)
		}
	}
	if len(o.Tools) > 0 && strings.HasPrefix(cfg.Image, "apt:") { // any other image has the agent itself, or not
		cfg.Toolchain = append(slices.Clone(cfg.Toolchain), o.Tools...)
		cfg.Toolchain.Sort()
	}
	for i, include := range cfg.Include {
		cfg.Include[i].From = os.Expand(include.From, func(name string) string {
			if v, ok := o.Variables[name]; ok {
				return v
			}
			return "${" + name + "}" // whoever copies it knows, or complains
		})
	}
	return nil
}

// includeVariables are the variables that includes name, as the caller has them: the daemon's own environment is that of
// whoever happened to start it.
func includeVariables(cfg *config.Config, environ []string) map[string]string {
	have := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		have[name] = value
	}
	named := map[string]string{}
	for _, include := range cfg.Include {
		os.Expand(include.From, func(name string) string {
			if v := have[name]; v != "" {
				named[name] = v
			}
			return ""
		})
	}
	return named
}

// reattach makes an existing box run. What the configuration says now takes effect at the next reset.
func (m *Manager) reattach(ctx context.Context, b *box, p plan, progress agentbox.Progress) (api.UpResponse, error) {
	req, repo := p.req, p.repo
	if req.Name != "" && req.Name != b.record().Box.Name {
		return api.UpResponse{}, agentbox.Errorf(agentbox.Exists, "%s already has box %s for branch %s", repo.Root, b.record().Box.Name, repo.Branch).
			WithHint("agentbox fork --name %s makes another one like it", req.Name)
	}
	if err := checkKind(b.record().Box, req.Isolation); err != nil {
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
		progress.Say(why + "; agentbox reset tries again")
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
	return m.readyResponse(ctx, b, req, repo, false, progress)
}

func (m *Manager) upResponse(ctx context.Context, b *box, subdir string, created bool, progress agentbox.Progress) (api.UpResponse, error) {
	shown, err := m.describe(ctx, b, brief)
	if err != nil {
		return api.UpResponse{}, err
	}
	if shown.Note == unloggedNote || shown.Note == noCardNote {
		progress.Say("box " + shown.Name + ": " + shown.Note)
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
		User: rec.User, Dir: path.Join(guestWorkspace, subdir), Env: m.placeholders(rec),
		Console: filepath.Join(rec.lifeDir(m.home), consoleName), Log: names.Log(), ServiceLog: serviceLogs,
	}
}

// consoleName is the driver's file, in a machine's directory, with what the machine printed on its console.
const consoleName = "console.log"

// Connect makes sure that a box runs, renews its lease, and says how to get in.
func (m *Manager) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	b, err := m.find(ctx, ref)
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
