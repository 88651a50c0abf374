package host

import (
	"context"
	"errors"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// setupDue tells whether the workspace still lacks what setup makes.
func (r record) setupDue() bool { return len(r.Setup) > 0 && !r.SetUp }

// setUp runs the configuration's setup commands once for each workspace, in order, as the box's user. A failure leaves the
// box as it is, so that somebody can look into it; the next up tries again.
func (m *Manager) setUp(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if !rec.setupDue() {
		return nil
	}
	if err := setup.Run(ctx, m.inside(rec), "setup", rec.Setup, hintOf("setup", rec), progress); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec.SetUp = true })
	return writeRecord(m.home, b.record())
}

// onStart runs the commands of the configuration that belong to every start of a machine, once
// setup has succeeded. A failure leaves the machine as it is, and is written down for whoever uses
// it later.
func (m *Manager) onStart(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if len(rec.Start) == 0 || !rec.StartDue || rec.setupDue() {
		return nil
	}
	err := setup.Run(ctx, m.inside(rec), "start", rec.Start, hintOf("start", rec), progress)
	var why string
	switch {
	case ctx.Err() != nil:
		why = "start of box " + rec.Box.Name + " was interrupted"
	case err != nil:
		why = agentbox.AsError(err).Message
	}
	b.set(func(b *box) { b.rec.StartDue, b.rec.StartErr = false, why })
	return errors.Join(err, writeRecord(m.home, b.record()))
}

// hintOf says what to do when commands of a step failed.
func hintOf(step string, rec record) string {
	again := "agentbox up"
	switch {
	case rec.Task: // which is gone by the time somebody reads this
		return "agentbox up makes a box that stays, to look into"
	case step == "start":
		again = "agentbox reset"
	}
	return "the box is there: agentbox shell " + rec.Box.Name + "; " + again + " tries again"
}

func (m *Manager) address(rec record) environment.Address {
	names := rec.names(m.home)
	return environment.Address{Name: rec.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts()}
}

// inside is a box as commands run in it.
func (m *Manager) inside(rec record) setup.Box {
	return setup.Box{Name: rec.Box.Name, User: rec.User, Dir: rec.names(m.home).Dir, Address: m.address(rec)}
}

// setupOf is what is to be made for a box before it is.
func (m *Manager) setupOf(rec record, cfg *config.Config) setup.Request {
	return setup.Request{
		Config: cfg, Project: rec.Box.Project, Directory: rec.Box.Directory, Branch: rec.Box.Branch, Detached: rec.Detached, User: rec.User, Suite: rec.Suite,
		Clean: func(ctx context.Context, img image.Image, progress agentbox.Progress) (setup.CleanBox, error) {
			like := rec
			like.Attach.Services, like.Attach.Ports = nil, nil // what services write is state, not a cache
			repo, err := workspace.Describe(ctx, rec.Box.Directory)
			if err != nil {
				return setup.CleanBox{}, err
			}
			return m.cleanBox(ctx, like, img, repo, progress)
		},
		Empty: func(ctx context.Context, img image.Image, progress agentbox.Progress) (setup.CleanBox, error) {
			return m.emptyBox(ctx, rec, img, progress)
		},
	}
}

// emptyBox makes a clean box of no repository, so it has the policy that the user has for none.
func (m *Manager) emptyBox(ctx context.Context, like record, img image.Image, progress agentbox.Progress) (setup.CleanBox, error) {
	empty, err := os.MkdirTemp(m.home.State(), ".tmp-toolchain-")
	if err != nil {
		return setup.CleanBox{}, agentbox.OrNoSpace(err)
	}
	defer os.RemoveAll(empty)
	repo, err := workspace.Empty(ctx, empty)
	if err != nil {
		return setup.CleanBox{}, err
	}
	like.Box.Directory, like.Box.Branch, like.Box.Commit, like.Limits = "", "", "", limitsOf(config.Limits{}, false)
	like.Attach, like.Setup, like.Start = attachment{Env: map[string]string{}}, nil, nil
	return m.cleanBox(ctx, like, img, repo, progress)
}

// cleanBox makes a box that nobody finds: it is never ready, so a daemon that dies takes it along.
func (m *Manager) cleanBox(ctx context.Context, like record, img image.Image, repo workspace.Repo, progress agentbox.Progress) (setup.CleanBox, error) {
	rec := like
	rec.Phase, rec.Key, rec.Remote, rec.Life, rec.Workspace = phaseNew, "", "", 1, 1
	rec.startFrom(img)
	out := base{rec: rec}
	if !rec.Cold {
		template, err := m.templates.Open(ctx, m.machine(rec), progress)
		if err != nil {
			return setup.CleanBox{}, err
		}
		out.template, out.rec.Box.Template = template, template.Key
	}
	named := repo
	named.Branch = "setup" // the box's name is made of it
	b, err := m.leaseOrNew(out, plan{repo: named})
	if err != nil {
		return setup.CleanBox{}, err
	}
	b.op.Lock()
	err = m.assemble(ctx, b, repo, out, progress)
	b.op.Unlock()
	if err != nil {
		return setup.CleanBox{}, errors.Join(agentbox.OrNoSpace(err), m.remove(b))
	}
	return setup.CleanBox{Box: m.inside(b.record()), Remove: func() error { return m.remove(b) }}, nil
}

// enter makes sure that a box runs, and says who asks git in it.
func (m *Manager) enter(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (work.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return work.Box{}, err
	}
	if err := m.wake(ctx, b, progress); err != nil {
		return work.Box{}, err
	}
	rec := b.record()
	return work.Box{ID: rec.Box.ID, Name: rec.Box.Name, User: rec.User, Directory: rec.Box.Directory, Commit: rec.Box.Commit, Address: m.address(rec)}, nil
}

func (r *record) startFrom(img image.Image) {
	r.ImageFile, r.Box.Image, r.Box.ImageName = img.Path, img.Digest, img.Name
}
