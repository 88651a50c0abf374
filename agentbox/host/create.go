package host

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/recipes"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/place"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/gpu"
	"agentbox/vmm/image"
)

// newRecord is the record of a new box before anything is made for it. key is what finds the box
// again, "" for a task's box. The box gets its id, name and lease from maker.lease.
func (c *creation) newRecord(key string) record {
	return record{
		Phase: phaseNew, Key: key, Task: c.Request.Task, Foreign: c.Request.Foreign, Loan: c.Request.Loan, Bound: c.Request.Bound, NoTemplate: c.Request.Cold && c.Templates, Life: 1, Workspace: 1,
		Overrides: c.Flags, StartDue: true, Detached: c.Repo.Detached, Subdir: c.Repo.Subdir, Env: c.Request.Env,
		Pins: c.Request.Pins, Entered: c.Request.Entered,
		Box: agentbox.Box{
			Directory: c.Directory, Source: c.from.Digest(), Elsewhere: c.Request.Source != nil && c.Request.Source.Elsewhere, Branch: c.Repo.Branch, Commit: c.Repo.Commit, Lifetime: c.Config.Lifetime, Disk: c.Config.Disk, Labels: c.Request.Labels,
		},
	}
}

// image finds or makes the image, and updates the record with everything in the configuration that
// a new machine may change. The size of the disk is not among it, because the workspace has it
// already.
func (m *Manager) image(ctx context.Context, u *creation, progress agentbox.Progress) (err error) {
	if err := checkGPUs(u.Config.GPUs, u.Kind.Kind); err != nil {
		return err
	}
	pins := recipes.Pins{Elsewhere: !u.rec.Box.Source.IsZero()}
	if pins.Elsewhere && !u.rec.Box.Elsewhere && !workspace.IsDeleted(u.rec.Box.Directory) {
		pins.Root = u.rec.Box.Directory
	}
	u.rec.Box.Project, u.rec.Approved = u.Review.Project.Name, u.Review.InForce
	asked, built := u.Config, false
	if p := u.rec.Pins; p != nil {
		if u.img, err = m.Images.Exact(ctx, p.Image, progress); err != nil {
			return agentbox.Classify(agentbox.CodeOf(err), "the image that box %s was entered with: %w", u.rec.Box.Name, err)
		}
		built = true
	} else if asked.Build != nil {
		if u.img, built, err = m.builtImage(ctx, u, progress); err != nil {
			return err
		}
	}
	if !built {
		if u.img, err = m.Recipes.Ensure(ctx, u.Review, u.Config, pins, progress); err != nil {
			return err
		}
	}
	if err := (composition{u, m, pins, progress, map[string]string{}}).add(ctx); err != nil {
		return err
	}
	of := ofImage(u.img)
	for _, w := range of.Warnings {
		progress.Note(w)
	}
	u.Config = of.With(u.Config)
	u.rec.applyConfig(u.Config, u.Kind, u.img)
	u.rec.Settings = flags.SettingsOf(asked)
	u.rec.Box.CPUs, u.rec.Box.Memory = m.Capacity.Share(u.rec.Box.ID, u.Config, progress)
	return nil
}

func (m *Manager) account(u *creation, progress agentbox.Progress) error {
	if err := agentbox.CheckMachine(u.Config.Machine); err != nil {
		return err
	}
	u.rec.Box.Project, u.rec.Approved = u.Review.Project.Name, u.Review.InForce
	for _, c := range u.Config.Compose {
		progress.Note("service " + c.Name + " of the Compose file is not started: a box in an account of another machine has no image")
	}
	u.rec.applyConfig(u.Config, u.Kind, image.Image{})
	u.rec.Account = cmp.Or(u.rec.Account, u.Config.Machine) // the workspace is there
	return nil
}

// applyConfig updates a record with a configuration, a kind of machine and an image. CPUs and
// memory are assigned afterwards by Capacity.
func (r *record) applyConfig(cfg *config.Config, kind isolation.Choice, img image.Image) {
	of := ofImage(img)
	r.Kernel, r.KernelKey, r.User, r.Suite = "", cfg.Kernel, userOr(cmp.Or(cfg.User, of.User)), cfg.Suite()
	r.Guest, r.Setup, r.Start = guestOf(cfg, of), cfg.Setup, cfg.Start
	r.Limits = boxLimits(cfg.Limits, r.Task)
	r.Hardware, r.Pool, r.Settings = kind.Facts.Hardware, cfg.Pool, flags.SettingsOf(cfg)
	r.Box.GPUs = cfg.GPUs
	r.Box.Isolation, r.Box.Accel, r.Box.Reason = kind.Kind, kind.Facts.Accel, kind.Reason
	r.startFrom(img)
	r.Box.Cache, r.SetupResult = agentbox.Digest{}, agentbox.Digest{}
}

// checkGPUs refuses GPUs that a box cannot have, before anything is made for it.
func checkGPUs(n int, kind agentbox.Isolation) error {
	if n == 0 {
		return nil
	}
	if !agentbox.KindOf(kind).GPUs {
		return agentbox.Errorf(agentbox.Invalid, "gpus: a box in a %s has a machine of its own, and no GPU of this one", kind).
			WithHint("set isolation: to gvisor or, for code that you trust, container")
	}
	_, err := gpu.Find(gpu.Dirs, n)
	return err
}

// layer adds the repository's tools (UpTools) or its setup result (UpSetup) to the image; u.img is
// the result. The plan decides the order: setup may need the tools.
func (m *Manager) layer(ctx context.Context, u *creation, do api.UpAction, progress agentbox.Progress) (err error) {
	if p := u.rec.Pins; p != nil { // the image has both
		if do == api.UpSetup {
			u.rec.Box.Cache, u.rec.SetupResult = p.Key, p.Result
		}
		return nil
	}
	want := m.setupOf(u.rec, u.Config)
	if do == api.UpTools && u.Config.Suite() == "" {
		return nil // the image of a Dockerfile is used as it is
	}
	if do == api.UpTools {
		u.img, err = m.setup.InstallTools(ctx, want, u.img, progress)
	} else {
		// The step may run twice (execute), each time on the same image.
		if u.below == nil {
			u.below = new(u.img)
		}
		u.img = *u.below
		var made setup.Result
		made, err = m.setup.Provision(ctx, want, u.previous, u.img, progress)
		u.img, u.rec.Box.Cache, u.rec.SetupResult = made.Image, made.Cache, made.Made
	}
	u.rec.startFrom(u.img)
	return err
}

// create makes the box. If it fails, nothing of the box is left. Once it has succeeded the box
// exists, and a failure of the repository's own commands does not remove it.
func (m *Manager) create(ctx context.Context, u *creation, progress agentbox.Progress) (err error) {
	if u.live != nil {
		u.rec.arriveAs(u.live)
	}
	if !u.Templates { // there was no step for it
		if u.rec.Box.Template, err = m.disk.key(ctx, u.rec, progress); err != nil {
			return err
		}
	}
	u.rec.Limits = withTaskLimits(u.rec.Limits, u.Request.TaskLimits)
	u.rec.SetUp = !u.rec.Box.Cache.IsZero() || u.live != nil // its workspace will have what setup made
	b, err := m.maker.lease(u.rec, u.Request.Name, filepath.Base(cmp.Or(u.Directory, u.Review.Project.Name)), u.Repo.Branch)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if u.live != nil {
		u.b = b
		return arrive(ctx, m, u, progress)
	}
	if err := m.build(ctx, b, u.from, progress); err != nil {
		return errors.Join(agentbox.MarkNoSpace(err), m.maker.removeLocked(b))
	}
	u.b = b
	return nil
}

// build assembles a box, and makes the pool hold machines like it, so that the next box of the same
// key need not wait for one.
func (m *Manager) build(ctx context.Context, b *box, from source.Source, progress agentbox.Progress) error {
	if err := m.maker.assemble(ctx, b, from, progress); err != nil {
		return err
	}
	repo := from.Repo()
	rec := b.record()
	if !rec.Box.Source.IsZero() && !rec.Box.Elsewhere { // the checkout may be gone
		repo, _ = workspace.Describe(ctx, rec.Box.Directory)
	}
	if rec.Task || rec.Box.Elsewhere { // nobody fetches from a task's box
		repo = workspace.Repo{}
	}
	if err := m.maker.ready(ctx, b, repo, progress); err != nil {
		return err
	}
	rec = b.record()
	m.pool.WarmUp(rec.Box.Template, rec.Pool, rec)
	return nil
}

// kernelFor finds or fetches the guest kernel of a kind of machine, "" for kinds that bring their
// own. override is the kernel that the configuration names, "" for the default of this build.
func (m *Manager) kernelFor(ctx context.Context, kind agentbox.Isolation, override string, progress agentbox.Progress) (string, error) {
	if !agentbox.KindOf(kind).GuestKernel {
		return "", nil
	}
	return m.kernel(ctx, override, progress)
}

// boxLimits is the limits of a box. A limit of time ends a run, and pauses any other box, to which
// somebody may come back.
func boxLimits(l config.Limits, run bool) place.Limits {
	return place.Limits{Wall: l.Wall, Idle: l.Idle, CPU: l.CPU, Pause: !run, Connections: l.Connections, Bytes: l.Bytes, Cost: l.Cost}
}

// defaultUser is the user of commands in images that agentbox made.
const defaultUser = "agent"

// userOr is user, or defaultUser where that is "".
func userOr(user string) string {
	if user == "" {
		return defaultUser
	}
	return user
}

func ofImage(img image.Image) config.OfImage {
	return config.ReadImage(img.Source, img.User, img.Metadata, img.Env, img.Accounts)
}

func guestOf(cfg *config.Config, of config.OfImage) guestConfig {
	return guestConfig{Env: of.Environment(cfg), Services: cfg.Services, Ports: cfg.Ports}
}
