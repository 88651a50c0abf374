package host

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// born is the record of a new box, before anything is made for it. key is what finds it again, ""
// for a task's box. Its id, name and lease it gets when a machine is leased for it.
func (u *making) born(key string) record {
	return record{
		Phase: phaseNew, Key: key, Task: u.Request.Task, Cold: u.Request.Cold, Life: 1, Workspace: 1,
		Overrides: u.Flags, StartDue: true, Detached: u.Repo.Detached,
		Box: agentbox.Box{
			Directory: u.Repo.Root, Branch: u.Repo.Branch, Commit: u.Repo.Commit, Lifetime: u.Config.Lifetime, Disk: u.Config.Disk,
		},
	}
}

// image finds or makes the image, and makes the record follow the configuration in everything a new
// machine may change. The size of the disk is not among it: the workspace has it already.
func (m *Manager) image(ctx context.Context, u *making, progress agentbox.Progress) (err error) {
	if u.img, err = m.Recipes.Ensure(ctx, u.Review, u.Config, false, progress); err != nil {
		return err
	}
	u.rec.Box.Project, u.rec.Approved = u.Review.Project.Name, u.Review.InForce
	u.rec.follow(u.Config, u.Kind, u.img)
	u.rec.Box.CPUs, u.rec.Box.Memory = m.Capacity.Share(u.rec.Box.ID, u.Config, progress)
	return nil
}

// follow makes a record ask for what a configuration asks for, on a kind of machine, over an image.
// CPUs and memory are not among it: Capacity shares them out afterwards.
func (r *record) follow(cfg *config.Config, kind isolation.Choice, img image.Image) {
	r.Kernel, r.KernelKey, r.User, r.Suite = "", cfg.Kernel, userOr(cfg.User), cfg.Suite()
	r.Guest, r.Setup, r.Start = guestOf(cfg, img.Env), cfg.Setup, cfg.Start
	r.Limits = limitsOf(cfg.Limits, r.Task)
	r.Hardware, r.Pool, r.Settings = kind.Facts.Hardware, cfg.Pool, flags.SettingsOf(cfg)
	r.Box.Isolation, r.Box.Accel, r.Box.Reason = kind.Kind, kind.Facts.Accel, kind.Reason
	r.startFrom(img)
	r.Box.Cache, r.SetupResult = agentbox.Digest{}, agentbox.Digest{} // clean boxes begin without
}

// layer lays the repository's tools (UpTools), or what its setup makes (UpSetup), over the image;
// u.img is then what the box starts from. The order of the two is the plan's: setup may need the
// tools.
func (m *Manager) layer(ctx context.Context, u *making, do api.UpAction, progress agentbox.Progress) (err error) {
	want := m.setupOf(u.rec, u.Config)
	if do == api.UpTools {
		u.img, err = m.setup.Equip(ctx, want, u.img, progress)
	} else {
		// Done again, it starts from the same image.
		if u.below == nil {
			u.below = new(u.img)
		}
		u.img = *u.below
		var made setup.Result
		made, err = m.setup.Provision(ctx, want, u.was, u.img, progress)
		u.img, u.rec.Box.Cache, u.rec.SetupResult = made.Image, made.Cache, made.Made
	}
	u.rec.startFrom(u.img)
	return err
}

// create makes the box. On failure nothing of it is left; from then on it exists, and a failure of
// the repository's own commands does not take it away.
func (m *Manager) create(ctx context.Context, u *making, progress agentbox.Progress) error {
	u.rec.Limits = withTaskLimits(u.rec.Limits, u.Request.TaskLimits)
	u.rec.SetUp = !u.rec.Box.Cache.IsZero() // its workspace will have what setup made
	base := base{rec: u.rec, template: u.template}
	b, err := m.maker.lease(base, u.Request.Name, filepath.Base(u.Repo.Root), u.Repo.Branch)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := m.build(ctx, b, u.Repo, base, progress); err != nil {
		return errors.Join(agentbox.OrNoSpace(err), m.maker.erase(b))
	}
	u.b = b
	return nil
}

// build puts a box together, and has the pool hold machines like its own: the next box of the same
// template is then restored before anybody asks for it.
func (m *Manager) build(ctx context.Context, b *box, repo workspace.Repo, base base, progress agentbox.Progress) error {
	if err := m.maker.assemble(ctx, b, repo, base, progress); err != nil {
		return err
	}
	if b.record().Task {
		repo = workspace.Repo{} // it goes before anybody fetches from it
	}
	if err := m.maker.ready(ctx, b, repo, progress); err != nil {
		return err
	}
	rec := b.record()
	m.pool.WarmUp(rec.Box.Template, rec.Pool, rec)
	return nil
}

// kernelFor finds or fetches the guest kernel of a kind of machine: "" for those that bring their
// own. override is the configuration's wish, "" for the kernel that this build of agentbox comes
// with.
func (m *Manager) kernelFor(ctx context.Context, kind agentbox.Isolation, override string, progress agentbox.Progress) (string, error) {
	if kind != agentbox.MicroVM {
		return "", nil
	}
	return m.kernel(ctx, override, progress)
}

// limitsOf are the limits of a box. Those of time end a run, as nobody comes back to it; a box that
// somebody may come back to is paused.
func limitsOf(l config.Limits, run bool) api.Limits {
	return api.Limits{Wall: l.Wall, Idle: l.Idle, CPU: l.CPU, Pause: !run, Connections: l.Connections, Bytes: l.Bytes, Cost: l.Cost}
}

// defaultUser is who commands run as in an image that agentbox made.
const defaultUser = "agent"

// userOr is user, or the one that agentbox makes in its own images.
func userOr(user string) string {
	if user == "" {
		return defaultUser
	}
	return user
}

// guestOf is what a configuration gives a machine: its environment over the one the image's
// programs expect. Where a name is in both, the configuration's value is the one.
func guestOf(cfg *config.Config, imageEnv []string) guestConfig {
	g := guestConfig{Env: map[string]string{}, Services: cfg.Services, Ports: cfg.Ports}
	for _, kv := range imageEnv {
		if name, value, ok := strings.Cut(kv, "="); ok {
			g.Env[name] = value
		}
	}
	maps.Copy(g.Env, cfg.Env)
	return g
}
