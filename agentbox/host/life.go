package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/supervisors"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/supervisor"
	"agentbox/vmm"
)

// startMachine begins the box's present life: from a template, from a saved state relative to it, or cold without either.
// It returns when the guest answers.
//
// ready, if not nil, waits until what the machine needs is complete: its saved state, which it is restored from then, or its
// workspace, with which it becomes the box; it starts meanwhile.
func (m *Manager) startMachine(ctx context.Context, b *box, template *templates.Template, saved string, ready func() error, progress agentbox.Progress) error {
	rec := b.record()
	step := "restore"
	if template == nil {
		step = "boot"
	}
	end := progress.Begin(step, string(rec.Box.Isolation))
	cfg := supervisor.Config{
		Box: rec.Box.ID, Home: m.home.Dir, Isolation: rec.Box.Isolation, Life: rec.Life, Hostname: hostname(rec),
		Spec: rec.spec(m.home), Template: template != nil, Saved: saved, Pending: saved != "" && ready != nil, Lease: leaseTime,
		Note: isolationNote(rec),
	}
	img, err := m.Images.Lazy(ctx, rec.Box.Isolation, rec.ImageFile, progress)
	if err != nil {
		return err
	}
	if img != nil {
		about, err := m.Images.Partial(ctx, *img)
		if err != nil {
			return err
		}
		cfg.Image = &supervisor.LazyImage{Digest: img.Digest, Image: about}
	}
	var t vmm.Template
	if template != nil {
		t = template.Template
	}
	// What an earlier supervisor left is not why this one will end.
	if _, _, err := supervisor.TakeExit(rec.names(m.home).Dir); err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", rec.Box.ID, "error", err)
	}
	s, err := m.supervisors.Start(cfg, t)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, s, rec, saved == "" && ready != nil, ready); err != nil {
		return errors.Join(err, s.Stop(0))
	}
	m.follow(b, s)
	end(rec.Box.Accel)
	return nil
}

// begin has a supervisor greet its guest when what the machine needs is ready. The guest becomes the box meanwhile, if it is
// to attach.
func (m *Manager) begin(ctx context.Context, s *supervisors.Supervisor, rec record, attach bool, ready func() error) error {
	var req api.StartRequest
	if attach {
		var err error
		if req.Attach, err = m.attachment(ctx, s, rec); err != nil {
			return whyGone(m.home, rec, err)
		}
	}
	if ready != nil {
		if err := ready(); err != nil {
			return err
		}
	}
	if _, err := api.Call(ctx, s.Client, api.SupervisorStart, req, nil); err != nil {
		return whyGone(m.home, rec, err)
	}
	return nil
}

// isolationNote says for the audit log what stands between the box and the host.
func isolationNote(rec record) string {
	note := string(rec.Box.Isolation)
	if rec.Box.Accel != "" {
		note += "/" + rec.Box.Accel
	}
	if !rec.Hardware {
		note += ", without hardware isolation"
	}
	return note
}

// madeAlready is for boxes that have their workspace.
func madeAlready() error { return nil }

func hostname(rec record) string {
	if rec.Box.Name != "" {
		return rec.Box.Name
	}
	return "agentbox"
}

// ask calls the supervisor of a box's machine. If it has gone meanwhile, the error says why.
func ask[Req, Resp any](ctx context.Context, h home.Home, b *box, s *supervisors.Supervisor, e api.Endpoint[Req, Resp], req Req) (Resp, error) {
	resp, err := api.Call(ctx, s.Client, e, req, nil)
	if api.Unreached(err) {
		err = whyGone(h, b.record(), err)
	}
	return resp, err
}

// whyGone replaces "no answer" by what the supervisor left as its reason. It stays there for
// machineGone, which writes it down.
func whyGone(h home.Home, rec record, err error) error {
	if agentbox.CodeOf(err) != agentbox.Unavailable {
		return err
	}
	if exit, ok, _ := supervisor.ReadExit(rec.names(h).Dir); ok {
		reason := exit.Reason
		if reason == nil {
			reason = agentbox.Errorf(agentbox.Unavailable, "%s", exit.End)
		}
		why := agentbox.Errorf(reason.Code, "box %s: %w", rec.Box.ID, reason)
		if why.Hint = reason.Hint; why.Hint == "" {
			why.Hint = "see " + rec.names(h).Log()
		}
		return why
	}
	if api.Unreached(err) {
		return agentbox.Errorf(agentbox.Unavailable, "box %s: its supervisor was killed", rec.Box.ID).
			WithHint("run the command again: nothing of the workspace is lost")
	}
	return err
}

// follow makes s the box's machine, and forgets it when it ends.
func (m *Manager) follow(b *box, s *supervisors.Supervisor) {
	b.set(func(b *box) { b.sup = s })
	m.running.Go(func() {
		select {
		case <-s.Gone:
		case <-m.ctx.Done():
			return
		}
		m.machineGone(b, s)
	})
}

// machineGone records why a machine ended that nobody asked to end.
func (m *Manager) machineGone(b *box, s *supervisors.Supervisor) {
	s.Client.Close()
	rec := b.record()
	exit, ok, err := supervisor.TakeExit(rec.names(m.home).Dir)
	if err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", rec.Box.ID, "error", err)
	}
	b.set(func(b *box) {
		if b.sup != s {
			return // somebody ended it and knows
		}
		b.sup = nil
		if !ok {
			b.rec.Box.Ended = &agentbox.End{Cause: agentbox.EndKilled}
		} else if !exit.End.Asked() {
			b.rec.Box.Ended = &exit.End
		}
	})
	m.log.Info("machine ended", "box", rec.Box.ID, "reason", exit.End, "known", ok)
	m.keepEnd(b)
	if !ok {
		m.reclaimAfterKill(b)
	}
}

// tellEnd says why a box's last machine ended.
func tellEnd(rec record, progress agentbox.Progress) {
	for _, note := range rec.Box.Notes() {
		progress.Say("box " + rec.Box.Name + ": " + note)
	}
}

// keepEnd writes down why a box does not run, for daemons to come.
func (m *Manager) keepEnd(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || rec.Box.Ended == nil || b.live() != nil {
		return
	}
	if err := writeRecord(m.home, rec); err != nil {
		m.log.Warn("cannot write down why a machine ended", "box", rec.Box.ID, "error", err)
	}
}

// attach makes a machine of the pool the box.
func (m *Manager) attach(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec, s := b.record(), b.live()
	if s == nil {
		return whyGone(m.home, rec, agentbox.Errorf(agentbox.Unavailable, "box %s: its machine ended as it started", rec.Box.ID))
	}
	end := progress.Begin("attach", "workspace, services, ports")
	req, err := m.attachment(ctx, s, rec)
	if err == nil {
		_, err = api.Call(ctx, s.Client, api.SupervisorAttach, *req, nil)
	}
	if err != nil {
		return whyGone(m.home, rec, err)
	}
	end("")
	return nil
}

// attachment is everything the box is configured with. Its policy is in force afterwards: it has to be before services start.
func (m *Manager) attachment(ctx context.Context, s *supervisors.Supervisor, rec record) (*api.AttachRequest, error) {
	if err := m.enforce(ctx, s, rec); err != nil {
		return nil, err
	}
	env, files := m.Policies.Packages(ctx, rec.Suite)
	return &api.AttachRequest{
		Hostname: hostname(rec), User: rec.User, Env: m.environment(rec, env), Files: files, Services: rec.Attach.Services,
		Ports: rec.Attach.Ports, Lease: leaseTime, Roots: egress.MachineRoots(),
	}, nil
}

// wake makes sure that a box runs, whatever state it is in, and renews its lease.
func (m *Manager) wake(ctx context.Context, b *box, progress agentbox.Progress) error {
	b.op.Lock()
	defer b.op.Unlock()
	switch b.state(m.home) {
	case agentbox.Running:
		return b.renew(ctx, m.home)
	case agentbox.Paused:
		return m.resume(ctx, b, progress)
	}
	if b.record().Phase != phaseReady {
		return agentbox.Errorf(agentbox.NotFound, "box %s was removed", b.record().Box.ID)
	}
	tellEnd(b.record(), progress)
	return m.newLife(ctx, b, b.record(), progress)
}

// newLife starts a fresh machine, as rec describes it, on the box's workspace. The runtime of the last one is dropped.
func (m *Manager) newLife(ctx context.Context, b *box, rec record, progress agentbox.Progress) error {
	var err error
	if rec.Kernel, err = m.kernelFor(ctx, rec.Box.Isolation, rec.KernelKey, progress); err != nil {
		return err // the guest agent in it must be of this build
	}
	rec.Life++
	rec.Box.Lease, rec.Box.Ended, rec.StartErr, rec.StartDue = newLease(), nil, "", true
	var template *templates.Template
	if !rec.Cold {
		if template, err = m.templates.Open(ctx, m.machine(rec), progress); err != nil {
			return err
		}
		rec.Box.Template = template.Name()
	}
	if err := m.commitLife(b, rec); err != nil {
		return err
	}
	if err := m.startMachine(ctx, b, template, "", madeAlready, progress); err != nil {
		return agentbox.OrNoSpace(err)
	}
	m.tellPorts(ctx, b, progress)
	if err := m.disk.sweep(rec); err != nil {
		return err
	}
	return m.onStart(ctx, b, progress)
}

// commitLife makes the directory of a new life and the record that names it.
func (m *Manager) commitLife(b *box, rec record) error {
	if err := m.disk.makeDirs(rec); err != nil {
		return agentbox.OrNoSpace(err)
	}
	if err := writeRecord(m.home, rec); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec = rec })
	return nil
}

// state is derived from facts.
func (b *box) state(h home.Home) agentbox.State {
	rec := b.record()
	if b.live() != nil {
		return agentbox.Running
	}
	// What cannot be looked at may be there: a box that was taken for stopped would begin afresh,
	// and drop it.
	if _, err := os.Stat(rec.names(h).Saved()); errors.Is(err, fs.ErrNotExist) {
		return agentbox.Stopped
	}
	return agentbox.Paused
}

// renewEvery is how often use of a box renews its lease: exec should cost no more calls than it
// needs, and its session renews it itself.
const renewEvery = time.Minute

// renew lets the lease begin anew; the supervisor enforces it.
func (b *box) renew(ctx context.Context, h home.Home) error {
	s := b.live()
	if s == nil || !b.renews(renewEvery) {
		return nil
	}
	_, err := ask(ctx, h, b, s, api.SupervisorLease, api.LeaseRequest{Term: leaseTime, Expires: time.Now().Add(leaseTime)})
	return err
}

// renews tells whether the last renewal is longer ago than every, and counts this as one if it is.
// Between supervisors it may say no: a new one has a new lease.
func (b *box) renews(every time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.renewed.IsZero() && time.Since(b.renewed) < every {
		return false
	}
	b.renewed = time.Now()
	return true
}

func owner() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		name += "@" + h
	}
	return name
}

// reclaimAfterKill does so with the workspace of a box whose supervisor was killed, unless its next machine runs already.
func (m *Manager) reclaimAfterKill(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || b.live() != nil {
		return
	}
	if err := m.disk.reclaim(rec.Box.Isolation, rec.workspacePath(m.home)); err != nil {
		m.log.Warn("cannot reclaim a workspace", "box", rec.Box.ID, "error", err)
	}
}
