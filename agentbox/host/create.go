package host

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/staging"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/task/agents"
	"agentbox/agentbox/workspace"
)

// plan is what a new box is made from.
type plan struct {
	req  api.UpRequest
	repo workspace.Repo
	cfg  *config.Config
	key  string

	overrides flags.Flags    // applied to cfg already
	agent     agents.Profile // that is to be run; of a box that is there already
	isolation isolation.Wish
}

// leaseTime is for how long a machine runs when nobody works in it.
const leaseTime = 12 * time.Hour

// create makes a box. On failure nothing of it is left.
func (m *Manager) create(ctx context.Context, p plan, progress agentbox.Progress) (*box, error) {
	base, err := m.prepare(ctx, p, progress)
	if err != nil {
		return nil, err
	}
	b, err := m.leaseOrNew(base, p)
	if err != nil {
		return nil, err
	}
	b.op.Lock()
	err = m.build(ctx, b, p, base, progress)
	if err != nil {
		err = errors.Join(agentbox.OrNoSpace(err), m.erase(b))
	}
	b.op.Unlock()
	if err != nil {
		return nil, err
	}
	// From here on the box exists, and a failure of the repository's own commands does not take it away.
	if err := m.setUp(ctx, b, progress); err != nil {
		return nil, err
	}
	return b, m.onStart(ctx, b, progress)
}

// base is what a box stands on: all of it exists before the box does.
type base struct {
	rec      record
	template *templates.Template // nil for a cold boot
}

// prepare finds or makes the image, the kernel and the template.
func (m *Manager) prepare(ctx context.Context, p plan, progress agentbox.Progress) (base, error) {
	rec := record{
		Phase: phaseNew, Key: p.key, Task: p.req.Task, Cold: p.req.Cold, Life: 1, Workspace: 1,
		Overrides: p.overrides, StartDue: true, Detached: p.repo.Detached,
		Box: agentbox.Box{
			Directory: p.repo.Root, Branch: p.repo.Branch, Commit: p.repo.Commit, Lifetime: p.cfg.Lifetime, Disk: p.cfg.Disk,
		},
	}
	choice, err := m.chooser.Choose(ctx, p.isolation)
	if err != nil {
		return base{}, err
	}
	progress.Say(choice.String())
	if err := m.configure(ctx, &rec, p.cfg, choice, progress); err != nil {
		return base{}, err
	}
	rec.Limits = withTaskLimits(rec.Limits, p.req.TaskLimits)
	rec.SetUp = !rec.Box.Cache.IsZero() // its workspace will have what setup made
	out := base{rec: rec}
	if rec.Cold {
		return out, nil
	}
	template, err := m.templates.Open(ctx, m.machine(rec), progress)
	if err != nil {
		return base{}, err
	}
	out.template, out.rec.Box.Template = template, template.Name()
	return out, nil
}

// configure makes a record follow a configuration in everything a new machine may change. The size of the disk is not
// among it: the workspace has it already.
func (m *Manager) configure(ctx context.Context, rec *record, cfg *config.Config, choice isolation.Choice, progress agentbox.Progress) error {
	was := rec.Box
	review, err := m.consent.Ask(ctx, rec.Box.Directory, cfg, rec.flagsNow(), progress)
	if err != nil {
		return err
	}
	rec.Box.Project, rec.Approved = review.Project.Name, review.InForce
	img, err := m.ensureImage(ctx, review, cfg, false, progress)
	if err != nil {
		return err
	}
	if rec.Kernel, err = m.kernelFor(ctx, choice.Kind, cfg.Kernel, progress); err != nil {
		return err
	}
	rec.KernelKey, rec.ImageFile, rec.User = cfg.Kernel, img.Path, userOr(cfg.User)
	rec.Attach, rec.Setup, rec.Start = attachmentOf(cfg, img.Env), cfg.Setup, cfg.Start
	rec.Suite = suiteOf(cfg)
	rec.Limits = limitsOf(cfg.Limits, rec.Task)
	rec.Hardware, rec.Pool, rec.Settings = choice.Facts.Hardware, cfg.Pool, flags.SettingsOf(cfg)
	rec.Box.Isolation, rec.Box.Accel, rec.Box.Reason = choice.Kind, choice.Facts.Accel, choice.Reason
	rec.Box.Image, rec.Box.ImageName = img.Digest, img.Name
	rec.Box.CPUs, rec.Box.Memory = m.share(rec.Box.ID, cfg, progress)
	rec.Box.Cache = agentbox.Digest{} // clean boxes begin without
	want := m.setupOf(*rec, cfg)
	if img, err = m.setup.Equip(ctx, want, img, progress); err != nil {
		return err
	}
	made, err := m.setup.Provision(ctx, want, was, img, progress)
	if err != nil {
		return err
	}
	rec.startFrom(made.Image)
	rec.Box.Cache = made.Cache
	return nil
}

// kernelFor finds or fetches the guest kernel of a kind of machine: "" for those that bring their own.
func (m *Manager) kernelFor(ctx context.Context, kind agentbox.Isolation, override string, progress agentbox.Progress) (string, error) {
	if kind != agentbox.MicroVM {
		return "", nil
	}
	return m.kernel(ctx, override, progress)
}

// limitsOf are the limits of a box. Those of time end a run; a box that somebody may come back to is paused.
func limitsOf(l config.Limits, run bool) api.Limits {
	return api.Limits{Wall: l.Wall, Idle: l.Idle, CPU: l.CPU, Pause: !run, Connections: l.Connections, Bytes: l.Bytes, Cost: l.Cost}
}

// defaultUser is who commands run as in an image that agentbox made.
const defaultUser = "agent"

func userOr(user string) string {
	if user == "" {
		return defaultUser
	}
	return user
}

// attachmentOf is what a configuration gives a machine: its environment over the one the image's programs expect.
func attachmentOf(cfg *config.Config, imageEnv []string) attachment {
	a := attachment{Env: map[string]string{}, Services: cfg.Services}
	for _, kv := range imageEnv {
		if name, value, ok := strings.Cut(kv, "="); ok {
			a.Env[name] = value
		}
	}
	maps.Copy(a.Env, cfg.Env)
	for _, p := range cfg.Ports {
		a.Ports = append(a.Ports, api.ConfiguredPort(p))
	}
	return a
}

// leaseOrNew takes a machine of the pool for the new box, or makes a box without one.
func (m *Manager) leaseOrNew(base base, p plan) (*box, error) {
	var b *box
	if base.template != nil {
		b, _ = m.pool.Take(base.template.Key)
	}
	if b == nil {
		b = &box{rec: record{Box: agentbox.Box{ID: agentbox.NewBoxID()}}}
	}
	rec := base.rec
	rec.Box.ID, rec.Box.Created = b.record().Box.ID, time.Now().UTC()
	rec.Box.Lease, rec.Seed = newLease(), rand.Text()
	if err := m.claim(b, rec, p.req.Name, filepath.Base(p.repo.Root), p.repo.Branch); err != nil {
		return nil, errors.Join(err, m.remove(b)) // a machine of the pool does not go back
	}
	return b, nil
}

// claim gives a box its name, the wanted one or a free one made of parts, and writes it down. Names are claimed one at a
// time, so that no two boxes get the same.
func (m *Manager) claim(b *box, rec record, want string, parts ...string) error {
	m.naming.Lock()
	defer m.naming.Unlock()
	switch {
	case want == "":
		want = m.boxes.freeName(parts...)
	case m.boxes.nameTaken(want):
		return agentbox.Errorf(agentbox.Exists, "the name %s is taken", want).WithHint("agentbox ls shows who has it")
	}
	rec.Box.Name = want
	if err := m.commitLife(b, rec); err != nil {
		return err
	}
	m.boxes.put(b)
	return nil
}

// newLease is the lease of a box whose machine starts.
func newLease() agentbox.Lease {
	return agentbox.Lease{Owner: owner(), Term: leaseTime}
}

// build makes the parts of a box and then the box.
func (m *Manager) build(ctx context.Context, b *box, p plan, base base, progress agentbox.Progress) error {
	if err := m.assemble(ctx, b, p.repo, base, progress); err != nil {
		return err
	}
	return m.makeReady(ctx, b, p, progress)
}

// assemble makes the workspace and starts the machine at the same time, and puts the one into the other.
func (m *Manager) assemble(ctx context.Context, b *box, repo workspace.Repo, base base, progress agentbox.Progress) error {
	rec := b.record()
	driver, err := m.chooser.Driver(rec.Box.Isolation)
	if err != nil {
		return err
	}
	// The machine opens the empty workspace, and does not look at it before it is attached.
	if b.live() == nil {
		if err := driver.ReserveWorkspace(ctx, rec.workspacePath(m.home), rec.Box.Disk); err != nil {
			return err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	var fillErr error
	filled := make(chan struct{})
	g.Go(func() error {
		defer close(filled)
		fillErr = m.stager.Fill(gctx, driver, m.target(rec), repo, progress)
		return fillErr
	})
	pooled := b.live() != nil
	g.Go(func() error {
		if pooled {
			return nil
		}
		return m.startMachine(gctx, b, base.template, "", func() error { <-filled; return fillErr }, progress)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if pooled {
		if err := m.attach(ctx, b, progress); err != nil {
			return err
		}
	}
	m.tellPorts(ctx, b, progress)
	return nil
}

// target is the workspace of a box that is made.
func (m *Manager) target(rec record) staging.Target {
	names := rec.names(m.home)
	to := staging.Target{
		Box: rec.Box.ID, Path: rec.workspacePath(m.home), Size: rec.Box.Disk, Staging: filepath.Join(names.Dir, "staging"), Commit: rec.Box.Commit, Setup: rec.Box.Cache,
	}
	if rec.Box.Directory != "" {
		to.Begin = names.Begin()
	}
	return to
}

// makeReady is the point from which the box exists.
func (m *Manager) makeReady(ctx context.Context, b *box, p plan, progress agentbox.Progress) error {
	rec := b.record()
	if !rec.Task {
		if err := m.addRemote(ctx, p.repo, &rec, progress); err != nil {
			return err
		}
	}
	rec.Phase = phaseReady
	if err := writeRecord(m.home, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	m.pool.WarmUp(rec.Box.Template, rec.Pool, rec)
	return nil
}
