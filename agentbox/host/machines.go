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
	"agentbox/agentbox/host/supervisors"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/supervisor"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/partial"
)

// machines start the machines of boxes, put policies in force in them, follow them and end them.
// They know nothing of how boxes are made or found.
type machines struct {
	home     home.Home
	disk     disk
	images   lazyImages
	policies governors
	start    func(cfg supervisor.Config, template vmm.Template) (*supervisors.Supervisor, error)
	log      *slog.Logger
	ctx      context.Context // of the daemon: nothing is followed for longer
	running  *sync.WaitGroup // goroutines that follow
}

// lazyImages are those that are not all here (images.Images): a machine can start from them, if its
// supervisor is told which blocks there are and asks for the others.
type lazyImages interface {
	Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error)
	Partial(ctx context.Context, img image.Image) (partial.Image, error)
}

// governors have the policies of boxes (egress.Policies). Enforce must have succeeded before a
// machine becomes a box; Placeholders and Packages are what programs in it find in their
// environment.
type governors interface {
	Enforce(ctx context.Context, m egress.Machine, s egress.Subject) error
	Placeholders(s egress.Subject) map[string]string
	Packages(ctx context.Context, suite string) (env, files map[string]string)
}

// beginning is what a life begins with. The zero beginning is a cold boot of a machine that is
// nobody's yet.
type beginning struct {
	template *templates.Template // nil: the machine boots
	saved    string              // directory of a state relative to the template, "" for none
	// complete waits until what the machine needs is there: its saved state, which it is restored
	// from then, or its workspace, with which it becomes the box. The machine starts meanwhile.
	// nil: there is nothing to wait for, and without a saved state the machine does not become the
	// box.
	complete func() error
	// resume: saved is the box's own pause, and the machine starts only when the daemon has said so.
	resume bool
}

// becomes tells whether the guest becomes the box as it starts.
func (from beginning) becomes() bool { return from.saved == "" && from.complete != nil }

// begin begins the box's present life, and returns when the guest answers. The caller holds op, and
// the record, with the life's directory, is written down already. On failure the machine has ended;
// the record is the caller's to put back.
func (m *machines) begin(ctx context.Context, b *box, from beginning, progress agentbox.Progress) error {
	rec := b.record()
	step := "restore"
	if from.template == nil {
		step = "boot"
	}
	end := progress.Begin(step, string(rec.Box.Isolation))
	cfg := supervisor.Config{
		Box: rec.Box.ID, Home: m.home.Dir, Isolation: rec.Box.Isolation, Life: rec.Life, Hostname: hostname(rec),
		Spec: rec.spec(m.home), Template: from.template != nil, Saved: from.saved, Pending: from.saved != "" && (from.complete != nil || from.resume),
		Resume: from.resume, Lease: leaseTime, Note: isolationNote(rec),
	}
	// An image that is here whole takes the short way: nil.
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
	// What an earlier supervisor left is not why this one will end.
	if _, _, err := supervisor.TakeExit(rec.names(m.home).Dir); err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", rec.Box.ID, "error", err)
	}
	s, err := m.start(cfg, t)
	if err != nil {
		return err
	}
	if err := m.greet(ctx, s, rec, from); err != nil {
		return errors.Join(err, s.Stop(0))
	}
	m.follow(b, s)
	end(rec.Box.Accel)
	return nil
}

// greet has a supervisor greet its guest when what the machine needs is complete. The policy is put
// in force first, before the guest could send anything. Errors name why the supervisor ended, where
// it has.
func (m *machines) greet(ctx context.Context, s *supervisors.Supervisor, rec record, from beginning) error {
	var req api.StartRequest
	if from.becomes() {
		var err error
		if req.Attach, err = m.attachRequest(ctx, s, rec); err != nil {
			return supervisors.WhyGone(rec.names(m.home), err)
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
		ctx, cancel = outlast(ctx, resumeGrace)
		defer cancel()
	}
	if _, err := api.Call(ctx, s.Client, api.SupervisorStart, req, nil); err != nil {
		return supervisors.WhyGone(rec.names(m.home), err)
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

// hostname is what the guest calls itself: the box's name, or agentbox for a machine of the pool,
// which has none yet.
func hostname(rec record) string {
	if rec.Box.Name != "" {
		return rec.Box.Name
	}
	return "agentbox"
}

// started is the supervisor of a machine that was started a moment ago. It may have ended since,
// and the error says why.
func (m *machines) started(b *box) (*supervisors.Supervisor, error) {
	rec, s := b.record(), b.live()
	if s == nil {
		return nil, supervisors.WhyGone(rec.names(m.home), agentbox.Errorf(agentbox.Unavailable, "box %s: its machine ended as it started", rec.Box.ID))
	}
	return s, nil
}

// stand stops the CPUs of a machine of the pool, until it is attached: it must take nothing from
// the boxes that work.
func (m *machines) stand(ctx context.Context, b *box) error {
	s, err := m.started(b)
	if err == nil {
		_, err = supervisors.Ask(ctx, s, api.SupervisorHold, api.None{})
	}
	return err
}

// attach makes a machine of the pool the box: the guest mounts the workspace, gets names and
// environment, and starts services. The box's workspace must be complete.
func (m *machines) attach(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	s, err := m.started(b)
	if err != nil {
		return err
	}
	end := progress.Begin("attach", "workspace, services, ports")
	req, err := m.attachRequest(ctx, s, rec)
	if err == nil {
		_, err = api.Call(ctx, s.Client, api.SupervisorAttach, *req, nil)
	}
	if err != nil {
		return supervisors.WhyGone(rec.names(m.home), err)
	}
	end("")
	return nil
}

// attachRequest is everything the box is configured with. Its policy is in force afterwards: it has
// to be before services start. Of variables with the same name the placeholder of a secret wins
// over the configuration's value, and that over what package managers are told, so that no
// configuration can put a plain value where a secret belongs.
func (m *machines) attachRequest(ctx context.Context, s *supervisors.Supervisor, rec record) (*api.AttachRequest, error) {
	if err := m.policies.Enforce(ctx, s, rec.subject()); err != nil {
		return nil, err
	}
	packages, files := m.policies.Packages(ctx, rec.Suite)
	env := maps.Clone(packages) // under the configuration's, which is under the secrets'
	maps.Copy(env, rec.Guest.Env)
	maps.Copy(env, m.policies.Placeholders(rec.subject()))
	return &api.AttachRequest{
		Hostname: hostname(rec), User: rec.User, Env: env, Files: files, Services: rec.Guest.Services,
		Ports: rec.Guest.Ports, Lease: leaseTime, Roots: egress.MachineRoots(),
	}, nil
}

// govern puts the policy of a box's checkout in force in its machine, if it has one that is or
// becomes somebody's. A machine of the pool has none: nothing leaves it until it is attached.
func (m *machines) govern(ctx context.Context, b *box) error {
	rec, s := b.record(), b.live()
	if s == nil || rec.Phase == phasePool {
		return nil
	}
	return m.policies.Enforce(ctx, s, rec.subject())
}

// restored puts a box's policy in force in a machine that was restored as it was saved, and
// forwards its ports again. Both belong to the supervisor and not to the machine, so that they are
// not in what was saved.
func (m *machines) restored(ctx context.Context, b *box, progress agentbox.Progress) error {
	err := m.govern(ctx, b)
	if s := b.live(); s != nil {
		err = errors.Join(err, serving.Reopen(ctx, s, b.record().Guest.Ports, progress))
	}
	return err
}

// tellPorts says which configured ports of a box answer elsewhere.
func tellPorts(ctx context.Context, b *box, progress agentbox.Progress) {
	if s := b.live(); s != nil {
		serving.TellMoved(ctx, s, b.record().Guest.Ports, progress)
	}
}

// status asks the guest of a box, which takes its time under emulation. If the machine has ended,
// the error says why.
func (m *machines) status(ctx context.Context, b *box) (api.SupervisorStatus, error) {
	rec, s := b.record(), b.live()
	if s == nil {
		return api.SupervisorStatus{}, supervisors.WhyGone(rec.names(m.home), notRunning(rec))
	}
	st, err := s.Status(ctx, api.StatusRequest{Guest: true})
	if err != nil {
		err = supervisors.WhyGone(rec.names(m.home), err)
	}
	return st, err
}

// follow makes s the box's machine, and forgets it when it ends. The goroutine ends with the
// machine or the daemon; Manager.Close waits for it.
func (m *machines) follow(b *box, s *supervisors.Supervisor) {
	b.set(func(b *box) { b.sup = s })
	m.running.Go(func() {
		select {
		case <-s.Gone:
		case <-m.ctx.Done():
			return
		}
		m.gone(b, s)
	})
}

// gone records why a machine ended that nobody asked to end. It does not take op while it looks: an
// operation that holds it may be the one that waits for this end. Whether it was asked for is told
// by b.sup, which such an operation has cleared or replaced.
func (m *machines) gone(b *box, s *supervisors.Supervisor) {
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
	m.log.Info("machine ended", "box", rec.Box.ID, "end", exit.End, "known", ok)
	m.keepEnd(b)
	if !ok {
		m.reclaimAfterKill(b)
	}
}

// endedAlone takes up why a machine ended while there was no daemon.
func (m *machines) endedAlone(b *box) {
	exit, ok, err := supervisor.TakeExit(b.record().names(m.home).Dir)
	if err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", b.record().Box.ID, "error", err)
	}
	if ok && !exit.End.Asked() {
		b.set(func(b *box) { b.rec.Box.Ended = &exit.End })
		m.keepEnd(b)
	}
}

// keepEnd writes down why a box does not run, for daemons to come. If the box has got another
// machine meanwhile, there is nothing to write down.
func (m *machines) keepEnd(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || rec.Box.Ended == nil || b.live() != nil {
		return
	}
	if err := b.change(m.home, func(*record) {}); err != nil {
		m.log.Warn("cannot write down why a machine ended", "box", rec.Box.ID, "error", err)
	}
}

// reclaimAfterKill reclaims the workspace of a box whose supervisor was killed, unless its next
// machine runs already. A supervisor that ends by itself does that.
func (m *machines) reclaimAfterKill(b *box) {
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
