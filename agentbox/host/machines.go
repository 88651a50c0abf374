package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/serving"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/agentbox/place/local/templates"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/partial"
)

// machines starts the machines of boxes, applies policies to them, follows them and records how
// they end. It knows nothing of how boxes are made or found.
type machines struct {
	home     home.Home
	disk     disk
	images   lazyImages
	policies policyEnforcer
	// spawn starts a supervisor process.
	spawn   func(cfg supervisor.Config, template vmm.Template) (*supervisors.Supervisor, error)
	log     *slog.Logger
	ctx     context.Context // of the daemon; following ends with it
	running *sync.WaitGroup // goroutines that follow
}

// lazyImages are images of which only a part is here (images.Images). A machine can start from one
// if its supervisor knows which blocks are here and asks for the others.
type lazyImages interface {
	Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error)
	Partial(ctx context.Context, img image.Image) (partial.Image, error)
}

// policyEnforcer has the policies of boxes (egress.Policies). Enforce must have succeeded before a
// machine becomes a box. Placeholders and Packages give the variables that programs in the box see.
type policyEnforcer interface {
	Enforce(ctx context.Context, m egress.Machine, s egress.Subject) error
	Placeholders(s egress.Subject) map[string]string
	Packages(ctx context.Context, suite string) (env, files map[string]string)
}

// launch says what a life starts from. The zero launch is a cold boot of a machine that does not
// become a box yet.
type launch struct {
	template *templates.Template // nil: the machine boots, unless there is a saved state
	saved    string              // directory of a state, relative to the template if there is one; "" for none
	// complete waits until what the machine needs is there: the saved state that it is restored
	// from, or the workspace with which it becomes the box. The machine starts meanwhile. nil means
	// that there is nothing to wait for, and a machine without a saved state does not become the
	// box.
	complete func() error
	// resume: saved is the box's own pause. The machine starts only after the daemon has said so.
	resume bool
}

// becomesBox tells whether the guest becomes the box while it starts.
func (l launch) becomesBox() bool { return l.saved == "" && l.complete != nil }

// start starts the box's present life and returns when the guest answers. The caller holds op and
// has written the record, which names the life's directory. If start fails, the machine has ended,
// and the caller restores the record.
func (m *machines) start(ctx context.Context, b *box, from launch, progress agentbox.Progress) error {
	rec := b.record()
	step := "restore"
	if from.template == nil && from.saved == "" {
		step = "boot"
	}
	end := progress.Begin(step, string(rec.Box.Isolation))
	cfg := supervisor.Config{
		Box: rec.Box.ID, Home: m.home.Dir, Isolation: rec.Box.Isolation, Life: rec.Life, Hostname: hostname(rec),
		Spec: rec.spec(m.home), Template: from.template != nil, Saved: from.saved, Pending: from.saved != "" && (from.complete != nil || from.resume),
		Resume: from.resume, Lease: leaseTime, Note: isolationNote(rec),
	}
	// nil: the image is complete.
	img, err := m.images.Lazy(ctx, rec.Box.Isolation, rec.ImageFile, progress)
	if err != nil {
		return err
	}
	if img != nil {
		about, err := m.images.Partial(ctx, *img)
		if err != nil {
			return err
		}
		cfg.Image = &supervisor.LazyImage{Digest: img.Digest, Image: about}
	}
	var t vmm.Template
	if from.template != nil {
		t = from.template.Template
	}
	s, err := m.spawn(cfg, t)
	if err != nil {
		return err
	}
	if err := m.handshake(ctx, s, rec, from); err != nil {
		return errors.Join(err, s.Stop(0))
	}
	m.follow(b, s)
	end(rec.Box.Accel)
	return nil
}

// handshake makes a supervisor greet its guest once everything the machine needs is there. The
// policy is applied first, before the guest can send anything. If the supervisor has ended, the
// error says why.
func (m *machines) handshake(ctx context.Context, s *supervisors.Supervisor, rec record, from launch) error {
	var req control.StartRequest
	if from.becomesBox() {
		var err error
		if req.Guest, err = m.guestFor(ctx, s, rec); err != nil {
			return s.Explain(ctx, err)
		}
	}
	if from.complete != nil {
		if err := from.complete(); err != nil {
			return err
		}
	}
	if from.resume {
		if err := ctx.Err(); err != nil {
			return err
		}
		var cancel func()
		ctx, cancel = withGrace(ctx, resumeGrace)
		defer cancel()
	}
	if _, err := api.Call(ctx, s.Client, control.Start, req, nil); err != nil {
		return s.Explain(ctx, err)
	}
	return nil
}

// isolationNote describes the isolation of a box for its audit log.
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

// hostname is the guest's host name: the box's name, or agentbox for a machine of the pool, which
// has no name yet.
func hostname(rec record) string {
	if rec.Box.Name != "" {
		return rec.Box.Name
	}
	return "agentbox"
}

// started returns the supervisor of a machine that was started a moment ago. If it has ended since,
// the error says why.
func (m *machines) started(b *box) (*supervisors.Supervisor, error) {
	rec, s := b.record(), b.supervisor()
	if s == nil {
		end := agentbox.End{Cause: agentbox.EndKilled}
		if rec.Box.Ended != nil {
			end = *rec.Box.Ended
		}
		return nil, supervisors.EndedError(rec.Box.ID.String(), end)
	}
	return s, nil
}

// hold stops the CPUs of a machine of the pool until it is attached, so that it takes nothing from
// working boxes.
func (m *machines) hold(ctx context.Context, b *box) error {
	s, err := m.started(b)
	if err == nil {
		_, err = supervisors.Ask(ctx, s, control.Hold, api.None{})
	}
	return err
}

// attach turns a machine of the pool into the box: the guest mounts the workspace, gets names and
// environment, and starts services. The workspace must be complete.
func (m *machines) attach(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	s, err := m.started(b)
	if err != nil {
		return err
	}
	end := progress.Begin("attach", "workspace, services, ports")
	req, err := m.guestFor(ctx, s, rec)
	if err == nil {
		_, err = api.Call(ctx, s.Client, control.Configure, *req, nil)
	}
	if err != nil {
		return s.Explain(ctx, err)
	}
	end("")
	return nil
}

// guestFor collects the configuration of a box for its guest. It applies the policy first,
// because that must be in force before services start. Of variables with one name, the placeholder
// of a secret wins over the configuration's value, and that over the one for package managers: no
// configuration can put a plain value where a secret belongs.
func (m *machines) guestFor(ctx context.Context, s *supervisors.Supervisor, rec record) (*control.GuestConfig, error) {
	if err := m.policies.Enforce(ctx, s, rec.subject(m.home)); err != nil {
		return nil, err
	}
	packages, files := m.policies.Packages(ctx, rec.Suite)
	env := maps.Clone(packages)
	maps.Copy(env, rec.Guest.Env)
	maps.Copy(env, m.policies.Placeholders(rec.subject(m.home)))
	return &control.GuestConfig{
		Hostname: hostname(rec), User: rec.User, Env: env, Files: files, Services: rec.Guest.Services,
		Ports: rec.Guest.Ports, Lease: leaseTime, Roots: egress.MachineRoots(),
	}, nil
}

// applyPolicy applies the policy of a box to its machine, if it has one. A machine of the pool gets
// no policy: nothing leaves it until it is attached.
func (m *machines) applyPolicy(ctx context.Context, b *box) error {
	rec, s := b.record(), b.supervisor()
	if s == nil || rec.Phase == phasePool {
		return nil
	}
	return m.policies.Enforce(ctx, s, rec.subject(m.home))
}

// restored applies the policy to a machine that was restored as it was saved, and forwards its
// ports again. The supervisor keeps both, so they are not part of the saved state.
func (m *machines) restored(ctx context.Context, b *box, progress agentbox.Progress) error {
	err := m.applyPolicy(ctx, b)
	if s := b.supervisor(); s != nil {
		err = errors.Join(err, serving.Reopen(ctx, s, b.record().Guest.Ports, progress))
	}
	return err
}

// reportPorts tells the user which configured ports of a box are forwarded from another port.
func reportPorts(ctx context.Context, b *box, progress agentbox.Progress) {
	if s := b.supervisor(); s != nil {
		serving.ReportMoved(ctx, s, b.record().Guest.Ports, progress)
	}
}

// status asks the guest of a box, which takes a while under emulation. If the machine has ended,
// the error says why.
func (m *machines) status(ctx context.Context, b *box) (control.Status, error) {
	rec, s := b.record(), b.supervisor()
	if s == nil {
		return control.Status{}, notRunning(rec)
	}
	st, err := s.Status(ctx, control.StatusRequest{Guest: true})
	return st, s.Explain(ctx, err)
}

// follow makes s the supervisor of the box's machine, and forgets it when it ends. Its goroutine
// ends with the machine or the daemon; Manager.Close waits for it.
func (m *machines) follow(b *box, s *supervisors.Supervisor) {
	b.set(func(b *box) { b.sup = s })
	m.running.Go(func() {
		select {
		case <-s.Done:
		case <-m.ctx.Done():
			return
		}
		m.onExit(b, s)
	})
}

// onExit records why a machine ended if nobody asked it to. It does not hold op while it looks,
// since an operation that holds op may be waiting for this end. Such an operation has cleared or
// replaced b.sup, which tells onExit that the end was asked for.
func (m *machines) onExit(b *box, s *supervisors.Supervisor) {
	s.Client.Close()
	rec := b.record()
	exit, ok, err := s.Exit()
	if err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", rec.Box.ID, "error", err)
	}
	b.set(func(b *box) {
		if b.sup != s {
			return // the end was asked for
		}
		b.sup = nil
		if !ok {
			b.rec.Box.Ended = &agentbox.End{Cause: agentbox.EndKilled}
		} else if !exit.End.Requested() {
			b.rec.Box.Ended = &exit.End
		}
	})
	m.log.Info("machine ended", "box", rec.Box.ID, "end", exit.End, "known", ok)
	m.persistEnd(b)
	if !ok {
		m.reclaimAfterKill(b)
	}
}

// recordPastExit records why a machine ended while no daemon ran.
func (m *machines) recordPastExit(b *box) {
	exit, ok, err := supervisor.TakeExit(b.record().names(m.home).Dir)
	if err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", b.record().Box.ID, "error", err)
	}
	if ok && !exit.End.Requested() {
		b.set(func(b *box) { b.rec.Box.Ended = &exit.End })
		m.persistEnd(b)
	}
}

// persistEnd writes the end of a machine to the record, for later daemons. It writes nothing if the
// box has another machine by now.
func (m *machines) persistEnd(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || rec.Box.Ended == nil || b.supervisor() != nil {
		return
	}
	if err := b.change(m.home, func(*record) {}); err != nil {
		m.log.Warn("cannot record why a machine ended", "box", rec.Box.ID, "error", err)
	}
}

// reclaimAfterKill reclaims the workspace of a box whose supervisor was killed, unless its next
// machine already runs. A supervisor that ends by itself reclaims it.
func (m *machines) reclaimAfterKill(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || b.supervisor() != nil {
		return
	}
	if err := m.disk.reclaim(rec.Box.Isolation, rec.workspacePath(m.home)); err != nil {
		m.log.Warn("cannot reclaim a workspace", "box", rec.Box.ID, "error", err)
	}
}
