package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/serving"
	"agentbox/agentbox/place"
	"agentbox/agentbox/resources"
)

// machines starts the places of boxes, applies policies to them, follows them and records how they
// end. It knows nothing of how boxes are made or found.
type machines struct {
	home     home.Home
	disk     disk
	policies policyEnforcer
	log      *slog.Logger
	ctx      context.Context        // of the daemon; following ends with it
	running  *sync.WaitGroup        // goroutines that follow
	changed  func()                 // a machine has ended; may be nil
	yield    func() resources.Yield // of boxes for others
}

// policyEnforcer has the policies of boxes (egress.Policies). Enforce must have succeeded before a
// machine becomes a box. Placeholders and Packages give the variables that programs in the box see.
type policyEnforcer interface {
	Enforce(ctx context.Context, m egress.Machine, s egress.Subject) error
	Limits(s egress.Subject) (place.Limits, error)
	Placeholders(ctx context.Context, s egress.Subject) map[string]string
	Packages(ctx context.Context, suite string) (env, files map[string]string)
}

// launch says what a life starts from, besides the record. The zero launch does not become a box yet.
type launch struct {
	from place.From
	// complete waits until what the place needs is there: the saved state that it is restored from,
	// or the workspace with which it becomes the box. The place begins meanwhile. nil means that
	// there is nothing to wait for, and a place that is not restored does not become the box.
	complete func() error
}

// becomesBox tells whether the guest becomes the box while it starts.
func (l launch) becomesBox() bool { return !l.from.Restores() && l.complete != nil }

// start starts the box's present life and returns when the guest answers. The caller holds op and
// has written the record, which names the life. If start fails, the place has ended, and the caller
// restores the record.
func (m *machines) start(ctx context.Context, b *box, from launch, progress agentbox.Progress) error {
	rec := b.record()
	kind, err := m.disk.kind(rec)
	if err != nil {
		return err
	}
	spec := rec.spec()
	spec.From = from.from
	if rec.Foreign {
		spec.Yield = m.yield()
	}
	step := "boot"
	if p, ok := kind.(place.Preparer); from.from.Restores() || ok && p.Prepares() && spec.Key != "" {
		step = "restore"
	}
	end := progress.Begin(step, string(rec.Box.Isolation))
	p, err := kind.Create(ctx, spec, progress)
	if err != nil {
		return err
	}
	if err := m.handshake(ctx, p, rec, from); err != nil {
		return errors.Join(err, p.Stop(0))
	}
	if rooted, ok := p.(place.Rooted); ok {
		if err := b.change(m.home, func(rec *record) { rec.Root = rooted.Workspace() }); err != nil {
			return errors.Join(err, p.Stop(0))
		}
	}
	m.follow(b, p)
	end(rec.Box.Accel)
	return nil
}

// handshake makes a place answer once everything it needs is there. The policy is applied first,
// before the guest can send anything.
func (m *machines) handshake(ctx context.Context, p place.Place, rec record, from launch) error {
	var as *place.Identity
	if from.becomesBox() {
		var err error
		if as, err = m.identity(ctx, p, rec); err != nil {
			return err
		}
	}
	if from.complete != nil {
		if err := from.complete(); err != nil {
			return err
		}
	}
	if from.from.Paused {
		if err := ctx.Err(); err != nil {
			return err
		}
		var cancel func()
		ctx, cancel = withGrace(ctx, resumeGrace)
		defer cancel()
	}
	return p.Start(ctx, as)
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

// started returns a place that was started a moment ago. If it has ended since, the error says why.
func (m *machines) started(b *box) (place.Place, error) {
	rec, p := b.record(), b.place()
	if p == nil {
		ended := agentbox.Errorf(agentbox.Unavailable, "box %s ended", rec.Box.ID)
		ended.End = &agentbox.End{Cause: agentbox.EndKilled}
		if rec.Box.Ended != nil {
			ended.End = rec.Box.Ended
		}
		return nil, ended
	}
	return p, nil
}

// park stops the CPUs of a machine of the pool until it becomes a box, so that it takes nothing from
// working boxes.
func (m *machines) park(ctx context.Context, b *box) error {
	p, err := m.started(b)
	if err != nil {
		return err
	}
	parker, ok := p.(place.Parker)
	if !ok {
		return agentbox.Errorf(agentbox.Internal, "a place of kind %s cannot wait in the pool", b.record().Box.Isolation)
	}
	return parker.Park(ctx)
}

// attach turns a machine of the pool into the box: the guest mounts the workspace, gets names and
// environment, and starts services. The workspace must be complete.
func (m *machines) attach(ctx context.Context, b *box, progress agentbox.Progress) error {
	p, err := m.started(b)
	if err != nil {
		return err
	}
	end := progress.Begin("attach", "workspace, services, ports")
	as, err := m.identity(ctx, p, b.record())
	if err != nil {
		return err
	}
	if err := p.Start(ctx, as); err != nil {
		return err
	}
	end("")
	return nil
}

// identity collects what makes a place the box. It applies the policy first, because that must be in
// force before services start. Of variables with one name, the placeholder of a secret wins over the
// configuration's value, and that over the one for package managers: no configuration can put a
// plain value where a secret belongs. Where nothing enforces a policy, nothing replaces
// placeholders, so the box gets none.
func (m *machines) identity(ctx context.Context, p place.Place, rec record) (*place.Identity, error) {
	as := &place.Identity{
		Hostname: rec.spec().Hostname(), User: rec.User, Env: maps.Clone(rec.Guest.Env), Services: rec.Guest.Services, Ports: rec.Guest.Ports, Lease: leaseTime,
	}
	enforcer, ok := p.(place.Enforcer)
	if !ok {
		return as, nil
	}
	if err := errors.Join(m.limit(ctx, p, rec), m.policies.Enforce(ctx, enforcer, rec.subject(m.home))); err != nil {
		return nil, err
	}
	as.Env, as.Files = m.policies.Packages(ctx, rec.Suite)
	as.Env = maps.Clone(as.Env)
	maps.Copy(as.Env, rec.Guest.Env)
	maps.Copy(as.Env, rec.Env)
	maps.Copy(as.Env, m.policies.Placeholders(ctx, rec.subject(m.home)))
	as.Roots = egress.MachineRoots()
	return as, nil
}

// applyPolicy applies the policy of a box to its place, if it has one that can enforce it. A machine
// of the pool gets no policy: nothing leaves it until it becomes a box.
func (m *machines) applyPolicy(ctx context.Context, b *box) error {
	rec := b.record()
	enforcer, ok := b.place().(place.Enforcer)
	if !ok || rec.Phase == phasePool {
		return nil
	}
	return m.policies.Enforce(ctx, enforcer, rec.subject(m.home))
}

// limit puts the limits of a box in force in its place, if that runs and has any.
func (m *machines) limit(ctx context.Context, p place.Place, rec record) error {
	limiter, ok := p.(place.Limiter)
	if !ok {
		return nil
	}
	limits, err := m.policies.Limits(rec.subject(m.home))
	if err != nil {
		return err
	}
	return limiter.Limit(ctx, limits)
}

// restored applies limits and policy to a machine that was restored as it was saved, and forwards its
// ports again. The supervisor keeps both, so they are not part of the saved state.
func (m *machines) restored(ctx context.Context, b *box, progress agentbox.Progress) error {
	err := errors.Join(m.limit(ctx, b.place(), b.record()), m.applyPolicy(ctx, b))
	if p, ok := b.place().(serving.Machine); ok {
		err = errors.Join(err, serving.Reopen(ctx, p, b.record().Guest.Ports, progress))
	}
	return err
}

// reportPorts tells the user which configured ports of a box are forwarded from another port.
func reportPorts(ctx context.Context, b *box, progress agentbox.Progress) {
	if p, ok := b.place().(serving.Machine); ok {
		serving.ReportMoved(ctx, p, b.record().Guest.Ports, progress)
	}
}

// status asks the guest of a box, which takes a while under emulation. If the machine has ended,
// the error says why.
func (m *machines) status(ctx context.Context, b *box) (place.Status, error) {
	p := b.place()
	if p == nil {
		return place.Status{}, notRunning(b.record())
	}
	return p.Status(ctx, place.Question{Guest: true})
}

// follow makes p the place of the box, and forgets it when it ends. Its goroutine ends with the place
// or the daemon; Manager.Close waits for it.
func (m *machines) follow(b *box, p place.Place) {
	b.set(func(b *box) { b.live = p })
	m.running.Go(func() {
		select {
		case <-p.Done():
		case <-m.ctx.Done():
			return
		}
		m.onExit(b, p)
	})
}

// onExit records why a place ended if nobody asked it to. It does not hold op while it looks, since
// an operation that holds op may be waiting for this end. Such an operation has cleared or replaced
// b.live, which tells onExit that the end was asked for.
func (m *machines) onExit(b *box, p place.Place) {
	rec := b.record()
	end, known := p.End()
	b.set(func(b *box) {
		if b.live != p {
			return // the end was asked for
		}
		b.live = nil
		if !known {
			b.rec.Box.Ended = &agentbox.End{Cause: agentbox.EndKilled}
		} else if !end.Requested() {
			b.rec.Box.Ended = &end
		}
	})
	m.log.Info("machine ended", "box", rec.Box.ID, "end", end, "known", known)
	m.persistEnd(b)
	if m.changed != nil {
		m.changed()
	}
	if !known {
		m.reclaimAfterKill(b)
	}
}

// recordPastEnd records why a machine ended while no daemon ran.
func (m *machines) recordPastEnd(b *box, end *agentbox.End) {
	if end != nil && !end.Requested() {
		b.set(func(b *box) { b.rec.Box.Ended = end })
		m.persistEnd(b)
	}
}

// persistEnd writes the end of a machine to the record, for later daemons. It writes nothing if the
// box has another machine by now.
func (m *machines) persistEnd(b *box) {
	b.op.Lock()
	defer b.op.Unlock()
	rec := b.record()
	if rec.Phase != phaseReady || rec.Box.Ended == nil || b.place() != nil {
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
	if rec.Phase != phaseReady || b.place() != nil {
		return
	}
	if err := m.disk.reclaim(rec); err != nil {
		m.log.Warn("cannot reclaim a workspace", "box", rec.Box.ID, "error", err)
	}
}
