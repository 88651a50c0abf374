package host

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/host/plan"
	"agentbox/agentbox/place"
	"agentbox/agentbox/project"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// creation is a plan while it is carried out: the facts that it follows from, and what the box is
// made from. It lives for one call of Up, Plan or Reset. Each step reads what earlier ones have
// set, in this order: rec (what the box should be), img, b.
type creation struct {
	plan.Facts
	from     source.Source
	project  project.Project
	previous agentbox.Box // the box that a reset replaces the machine of; zero for a new box
	rec      record
	img      image.Image
	below    *image.Image // the image that setup's is laid over; nil before that step
	b        *box
	live     *api.Live // what runs in another machine's box goes on in this one
	move     func(context.Context, *Arrival) error
}

// Up creates the box of a directory and its branch, or finds it and makes sure that it runs. It
// gathers facts, plans, and carries out the plan; every decision is made by the plan (host/plan).
//
// Calls for one checkout and branch run one after the other, so that the second finds the box of
// the first. If Up fails before the box is made, nothing of it is left. If it fails later, in the
// box's commands or services, the box stays and the next Up goes on.
func (m *Manager) Up(ctx context.Context, req api.UpRequest, progress agentbox.Progress) (api.UpResponse, error) {
	return up(ctx, m, req, nil, nil, progress)
}

// up is Up, and with live MoveHere.
func up(ctx context.Context, m *Manager, req api.UpRequest, live *api.Live, move func(context.Context, *Arrival) error, progress agentbox.Progress) (api.UpResponse, error) {
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return api.UpResponse{}, err
		}
	}
	if err := errors.Join(checkLabels(req.Labels), checkEnv(req.Env), egress.CheckBound(req.Bound)); err != nil {
		return api.UpResponse{}, err
	}
	u, release, err := m.read(ctx, req)
	if err != nil {
		return api.UpResponse{}, err
	}
	defer release()
	u.live, u.move = live, move
	// The caller's variables may be the values of secrets.
	if err := m.Policies.RememberEnv(req.Environ); err != nil {
		return api.UpResponse{}, err
	}
	key := "" // a task's box is not found by its directory, and one that arrives is a new one
	if !req.Task && live == nil {
		key = u.key(u.project)
		defer m.keys.Lock(key)()
		u.b = m.boxes.byKey(key)
	}
	p, err := m.plan(ctx, u)
	if err != nil {
		return api.UpResponse{}, err
	}
	// First, so that they are seen before anything that takes long.
	for _, w := range u.Config.Warnings {
		progress.Note(w)
	}
	created := u.b == nil
	if !created {
		// A reset of the box reads the configuration of its newest source.
		if from := u.from.Digest(); from != u.b.record().Box.Source {
			if err := u.b.change(m.home, func(rec *record) { rec.Box.Source = from }); err != nil {
				return api.UpResponse{}, err
			}
		}
	} else {
		m.boxes.reportUnread(progress) // one of them may be the box that the user expects
		progress.Note(u.Kind.String())
		if text := agentbox.LacksText(u.Kind.Kind, isolation.Lacks(u.Kind.Kind, u.Repo.Root, u.Config)); text != "" && !u.Request.Task {
			progress.Note(text)
		}
		u.rec = u.newRecord(key)
	}
	if err := m.execute(ctx, u, p, progress); err != nil {
		return api.UpResponse{}, err
	}
	return m.upResponse(ctx, u.b, u.Repo.Subdir, created, progress)
}

func (c *creation) key(p project.Project) string {
	if s := c.Request.Source; s != nil && s.Apart {
		return "source " + s.Digest.Hex()
	}
	return boxKey(c.Config.Lifetime, workspace.Repo{Root: cmp.Or(c.Directory, p.Name), Branch: c.Repo.Branch}, p)
}

// Plan says what Up would do and does nothing. It looks for what is here already, so that the
// answer tells which steps take long. Without a box it plans twice, because only the first plan
// says what to look for.
func (m *Manager) Plan(ctx context.Context, req api.UpRequest, _ agentbox.Progress) (api.UpPlan, error) {
	u, release, err := m.read(ctx, req)
	if err != nil {
		return api.UpPlan{}, err
	}
	defer release()
	u.b = m.boxes.byKey(u.key(u.project))
	p, err := m.plan(ctx, u)
	if err != nil {
		return api.UpPlan{}, err
	}
	if u.b != nil {
		out := api.UpPlan{Box: u.Box.Name, Isolation: u.Box.Isolation, Reason: u.Box.Reason, Steps: p}
		return m.compareKinds(ctx, u, isolation.Choice{Kind: u.Box.Isolation, Facts: place.Facts{Hardware: u.Box.Accel != "" && u.Box.Accel != "tcg"}}, out), nil
	}
	u.rec = u.newRecord("")
	u.Found = m.lookUpParts(ctx, u, p)
	p, err = plan.Up(u.Facts)
	return m.compareKinds(ctx, u, u.Kind, api.UpPlan{Isolation: u.Kind.Kind, Reason: u.Kind.Reason, Steps: p}), err
}

// compareKinds adds to a plan what other kinds would be for its repository.
func (m *Manager) compareKinds(ctx context.Context, u *creation, has isolation.Choice, p api.UpPlan) api.UpPlan {
	p.Alternatives, p.Lacks = m.Kinds().Alternatives(ctx, has), isolation.Lacks(has.Kind, u.Repo.Root, u.Config)
	return p
}

// read gathers what the caller asks for: the source, its project, its configuration and the flags. It
// decides nothing, but returns Invalid for what makes no sense. The source stays until release is
// called.
func (m *Manager) read(ctx context.Context, req api.UpRequest) (u *creation, release func(), err error) {
	u = &creation{Facts: plan.Facts{Request: req, Results: m.setup.Results != nil}}
	if release, err = m.openSource(ctx, u); err != nil {
		return nil, nil, err
	}
	if err = m.readFlags(ctx, u); err == nil {
		u.project, err = project.Identify(ctx, u.Repo.Root)
	}
	if err != nil {
		release()
	}
	return u, release, err
}

func (m *Manager) openSource(ctx context.Context, u *creation) (release func(), err error) {
	at := agentbox.Box{Directory: u.Request.Directory}
	if s := u.Request.Source; s != nil {
		at.Source = s.Digest
	}
	if u.from, release, err = m.maker.source(ctx, at); err != nil {
		return nil, err
	}
	u.Repo = u.from.Repo()
	u.Directory = u.Repo.Root
	if s := u.Request.Source; s != nil {
		u.Directory, u.Repo.Subdir = s.Directory, s.Subdir
	}
	return release, nil
}

// place is where the configuration of what is made is. devcontainer may be "".
func (c *creation) place(devcontainer string) config.Place {
	return placeIn(c.Repo.Root, c.Repo.Subdir, devcontainer)
}

func (m *Manager) readFlags(ctx context.Context, u *creation) (err error) {
	req, at := u.Request, u.place(u.Request.Devcontainer)
	if u.Config, err = config.LoadAt(ctx, at); err != nil {
		return err
	}
	// An agent brings tools and flags of its own, so it is found before the flags are read.
	if req.Agent != "" {
		if u.Agent, err = m.consent.Agent(ctx, u.Repo.Root, at, req.Agent, req.Environ); err != nil {
			return err
		}
	}
	if u.Flags, err = flags.New(req, u.Config, u.Agent); err != nil {
		return err
	}
	return u.Flags.Check()
}

// plan gathers the remaining facts, for an existing box (u.b) or a new one, and plans. Flags of an
// earlier up count for an existing box: it was made with them, and what the user's own flags ask
// for needs no approval.
func (m *Manager) plan(ctx context.Context, u *creation) (plan.Plan, error) {
	asked := u.Flags
	var err error
	if u.b != nil {
		rec := u.b.record()
		u.Box = rec.planBox(u.b.state(m.disk))
		// The flags that the box was made with, overridden by the new ones.
		asked = rec.Overrides.With(u.Flags)
		if asked.Devcontainer != u.Request.Devcontainer {
			if u.Config, err = config.LoadAt(ctx, u.place(asked.Devcontainer)); err != nil {
				return nil, err
			}
		}
	} else if u.Subdir, err = m.hasSubdir(ctx, u); err != nil {
		return nil, err
	}
	if err := asked.Apply(u.Config); err != nil {
		return nil, err
	}
	if u.b == nil {
		preference := isolation.PreferenceOf(u.Request.Isolation, u.Config, u.Request.Environ)
		if u.Kind, err = m.chooser.Choose(ctx, preference); err != nil {
			return nil, err
		}
		if req := u.Request; req.Task && agentbox.KindOf(u.Kind.Kind).Elsewhere {
			return nil, agentbox.Errorf(agentbox.Invalid, "%s isolation runs no tasks", u.Kind.Kind).WithHint("agentbox up -- CMD... runs a command there")
		}
		u.Templates = m.disk.prepares(u.Kind.Kind)
	} else {
		asked.Isolation = u.Box.Isolation
	}
	if u.Review, err = m.consent.Review(ctx, u.project, u.Repo.Root, u.Config, asked); err != nil {
		return nil, err
	}
	if u.Request.Foreign {
		if len(u.Config.Include) > 0 {
			return nil, agentbox.Errorf(agentbox.Invalid, "include: copies files of the machine, which tasks of others do not get")
		}
		// A project of its own: what was approved for the user's, and what setup made, is not its.
		u.Review.Project.Name, u.Review.InForce = "foreign:"+u.Review.Project.Name, ""
	}
	return plan.Up(u.Facts)
}

// hasSubdir tells whether a new box will have the directory where the command is to run.
func (m *Manager) hasSubdir(ctx context.Context, u *creation) (bool, error) {
	if !u.Request.Command || u.Repo.Subdir == "" {
		return true, nil
	}
	return workspace.HasFilesIn(ctx, u.Repo, u.Repo.Subdir)
}

// execute runs the steps in order and stops at the first that fails. What the image says is known
// once it is here, so what comes after is planned again. If the setup result turns out to be damaged
// when the workspace of a new box is made, it is dropped, and the steps from setup on run once more.
func (m *Manager) execute(ctx context.Context, u *creation, p plan.Plan, progress agentbox.Progress) error {
	dropped := false
	for i := 0; i < len(p); i++ {
		err := m.do(ctx, u, p[i], progress)
		setup := slices.IndexFunc(p, func(step api.UpStep) bool { return step.Action == api.UpSetup })
		switch {
		case err != nil && setup >= 0 && !dropped:
			if err = m.setup.Drop(ctx, err, progress); err == nil {
				i, dropped = setup-1, true
			}
		case err == nil && p[i].Action == api.UpImage:
			p, err = u.planAgain()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// planAgain plans with what is known by now; the steps until now stay as they were.
func (c *creation) planAgain() (plan.Plan, error) {
	if c.previous.ID != (agentbox.BoxID{}) {
		return plan.Reset(c.Facts), nil
	}
	return plan.Up(c.Facts)
}

// do runs one step, by one call to the code that is responsible for it.
func (m *Manager) do(ctx context.Context, u *creation, step api.UpStep, progress agentbox.Progress) (err error) {
	switch step.Action {
	case api.UpApproval:
		if err = m.consent.Report(u.Review, progress); step.How == api.UpPartial {
			return nil
		}
		return err
	case api.UpAccount:
		return m.account(u, progress)
	case api.UpImage:
		return m.image(ctx, u, progress)
	case api.UpKernel:
		u.rec.Kernel, err = m.kernelFor(ctx, u.rec.Box.Isolation, u.rec.KernelKey, progress)
		return err
	case api.UpTools, api.UpSetup:
		return m.layer(ctx, u, step.Action, progress)
	case api.UpTemplate:
		u.rec.Box.Template, err = m.disk.key(ctx, u.rec, progress)
		return err
	case api.UpBox:
		return m.create(ctx, u, progress)
	case api.UpChanges:
		return m.reportChanges(u.b, u.Config, u.Repo.Subdir, u.Flags, progress)
	case api.UpPolicy:
		if err := u.b.setApproved(m.home, u.Review.InForce); err != nil {
			return err
		}
		return m.machines.applyPolicy(ctx, u.b)
	case api.UpEnsureRunning:
		return m.ensureRunningAndReport(ctx, u.b, progress)
	case api.UpAgent:
		return m.addAgent(ctx, u.b, u.Config, u.Flags, progress)
	case api.UpRunSetup:
		return m.setUp(ctx, u.b, progress)
	case api.UpRunStart:
		return m.onStart(ctx, u.b, progress)
	case api.UpRecall:
		return m.restoreHistory(ctx, u.b, u.Agent, progress)
	case api.UpServices:
		return m.machines.awaitServices(ctx, u.b, progress)
	}
	return agentbox.Errorf(agentbox.Internal, "there is no step %q", step.Action)
}

// ensureRunningAndReport also reports why start commands failed, if they did.
func (m *Manager) ensureRunningAndReport(ctx context.Context, b *box, progress agentbox.Progress) error {
	if err := m.ensureRunning(ctx, b, progress); err != nil {
		return err
	}
	if why := b.record().StartErr; why != "" {
		progress.NoteProblem("", agentbox.Problem{Kind: agentbox.ProblemStart, Detail: why})
	}
	return nil
}

// upResponse is the answer to Up. It reports at once if the box has no network.
func (m *Manager) upResponse(ctx context.Context, b *box, subdir string, created bool, progress agentbox.Progress) (api.UpResponse, error) {
	shown := m.describe(ctx, b, brief)
	for _, p := range shown.Problems {
		if p.Kind == agentbox.ProblemAuditLog || p.Kind == agentbox.ProblemNoNetworkCard {
			progress.NoteProblem(shown.Name, p)
		}
	}
	c, err := m.connection(ctx, b.record(), subdir)
	return api.UpResponse{Box: shown, Created: created, Connection: c}, err
}
