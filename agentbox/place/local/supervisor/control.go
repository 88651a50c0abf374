package supervisor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

// handler serves the calls of package control. The mode of the socket's directory
// decides who may call: the user, and so the daemon. Only operations on the machine exclude each
// other; all other calls may run concurrently.
func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	api.Handle(mux, control.Start, func(ctx context.Context, req control.StartRequest, _ agentbox.Progress) (control.Status, error) {
		select {
		case s.startRequests <- req:
		default: // asked before
		}
		return s.status(ctx, place.Question{})
	})
	api.Handle(mux, control.Show, func(ctx context.Context, req place.Question, _ agentbox.Progress) (control.Status, error) {
		return s.status(ctx, req)
	})
	api.Handle(mux, control.Wait, func(ctx context.Context, _ api.None, _ agentbox.Progress) (api.None, error) {
		select {
		case <-ctx.Done():
		case <-s.ended:
		}
		return api.None{}, nil
	})
	api.Handle(mux, control.Configure, exclusive(s, s.attach))
	api.Handle(mux, control.Park, exclusive(s, s.park))
	api.Handle(mux, control.Pause, exclusive(s, s.pause))
	api.Handle(mux, control.Freeze, exclusive(s, s.freeze))
	api.Handle(mux, control.Save, exclusive(s, s.save))
	api.Handle(mux, control.Stop, s.stopAnytime)
	api.Handle(mux, control.Lease, func(_ context.Context, req control.LeaseRequest, _ agentbox.Progress) (api.None, error) {
		s.lease.renew(req.Term)
		return api.None{}, nil
	})
	api.Handle(mux, control.Policy, func(ctx context.Context, req place.Policy, _ agentbox.Progress) (api.None, error) {
		return api.None{}, s.guard.enforce(ctx, req)
	})
	api.Handle(mux, control.Limits, func(_ context.Context, req place.Limits, _ agentbox.Progress) (api.None, error) {
		s.meter.limit(req)
		return api.None{}, nil
	})
	api.Handle(mux, control.Account, whenStarted(s, func(ctx context.Context, _ api.None) (api.None, error) {
		s.flushEvidence(ctx)
		return api.None{}, nil
	}))
	api.Handle(mux, control.Ports, exclusive(s, s.openConfigured))
	api.Handle(mux, control.Open, whenStarted(s, func(_ context.Context, req api.PortRequest) (agentbox.Port, error) {
		return s.ports.open(req.Port, req.Host)
	}))
	api.Handle(mux, control.Close, whenStarted(s, func(_ context.Context, req api.PortRequest) (api.None, error) {
		return api.None{}, s.ports.close(req.Port)
	}))
	s.handleJobs(mux)
	return mux
}

// whenStarted serves a call once the machine answers, or says why it could not start.
func whenStarted[Req, Resp any](s *Supervisor, f func(context.Context, Req) (Resp, error)) api.Func[Req, Resp] {
	return func(ctx context.Context, req Req, _ agentbox.Progress) (resp Resp, err error) {
		if err := s.waitStarted(ctx); err != nil {
			return resp, err
		}
		return f(ctx, req)
	}
}

// exclusive serializes operations on the machine. They are not cut short when the daemon hangs up:
// half an operation is worse than one that nobody waits for. After the machine has ended the error
// is Unavailable.
func exclusive[Req any](s *Supervisor, f func(context.Context, Req) error) api.Func[Req, api.None] {
	return whenStarted(s, func(ctx context.Context, req Req) (api.None, error) {
		s.op.Lock()
		defer s.op.Unlock()
		s.meter.touch() // saving a box is using it
		select {
		case <-s.ended:
			return api.None{}, agentbox.Errorf(agentbox.Unavailable, "box %s: its machine has ended", s.cfg.Box)
		default:
		}
		return api.None{}, f(context.WithoutCancel(ctx), req)
	})
}

// maxHelloAge is how old the time of a greeting may be. A machine of the pool was greeted long
// before it is attached.
const maxHelloAge = time.Second

// attach gives the machine its workspace and everything configured, and so turns it into a box. The
// policy must be in force already (control.Policy), since its services may reach out as soon as
// they start.
func (s *Supervisor) attach(ctx context.Context, req place.Identity) error {
	if err := s.machine.Thaw(ctx); err != nil { // a machine of the pool is parked
		return err
	}
	client, err := s.link.client(ctx)
	if err != nil {
		return err
	}
	if time.Since(s.greetedAt) > maxHelloAge { // a machine of the pool
		if err := client.SetClock(ctx, time.Now()); err != nil {
			return err
		}
	}
	a, err := s.attachment(req)
	if err != nil {
		return err
	}
	if err := client.Attach(ctx, *a); err != nil {
		return fmt.Errorf("box %s: %w", s.cfg.Box, err)
	}
	return s.becomeBox(ctx, req)
}

// attachment is what the guest is told at an attach: names, environment, services, files and
// trusted authorities. Own says that the machine becomes this box for good, as opposed to a
// warm-up.
func (s *Supervisor) attachment(req place.Identity) (*protocol.AttachRequest, error) {
	a := &protocol.AttachRequest{Workspace: true, Own: true, Hostname: req.Hostname, User: req.User, Env: req.Env, Services: req.Services}
	ca, err := s.ca()
	if err != nil {
		return nil, err
	}
	if a.Authority, err = trustedAuthority(ca, req.Roots); err != nil {
		return nil, err
	}
	for path, content := range req.Files {
		a.Files = append(a.Files, protocol.File{Path: path, Content: content})
	}
	return a, nil
}

// becomeBox is the host's half of an attach, after the guest's: it opens the ports, starts the
// lease and starts the clock of the limits.
func (s *Supervisor) becomeBox(ctx context.Context, req place.Identity) error {
	if err := s.openConfigured(ctx, req.Ports); err != nil {
		return err
	}
	s.lease.renew(req.Lease)
	s.attached.Store(true)
	s.meter.begin()
	return nil
}

// openConfigured forwards the configured ports. Where the port's own number is taken on the host it
// uses another: a box should not fail for that.
func (s *Supervisor) openConfigured(_ context.Context, list []agentbox.ConfiguredPort) error {
	for _, port := range list {
		if _, err := s.ports.openNear(port.Box, port.Host); err != nil {
			return err
		}
	}
	return nil
}

// park prepares a machine for the pool: it does beforehand what an attach will ask of it, and stops
// its CPUs until then. From then on the machine costs memory only.
func (s *Supervisor) park(ctx context.Context, _ api.None) error {
	client, err := s.link.client(ctx)
	if err != nil {
		return err
	}
	if err := warmUp(ctx, client); err != nil {
		return fmt.Errorf("warm up for a lease: %w", err)
	}
	return s.machine.Freeze(ctx)
}

// warmUp attaches an empty workspace, runs a command in it and detaches it. Under emulation
// everything takes three times as long the first time, and here nobody waits for it. Nor for what the
// image has each box make for itself: the command comes after that. PostgreSQL's takes seconds.
func warmUp(ctx context.Context, client *guest.Client) error {
	if err := client.Attach(ctx, protocol.AttachRequest{Workspace: true, Hostname: "box", Own: true}); err != nil {
		return err
	}
	_, err := environment.Exec(ctx, client.SSH(), environment.Command{Argv: []string{"true"}, Dir: protocol.WorkspaceDir})
	if err != nil {
		return err
	}
	if err := client.SetClock(ctx, time.Now()); err != nil {
		return err
	}
	return client.Detach(ctx)
}

// pause saves the machine and ends it. The saved state is complete before the machine is killed,
// and the machine does not run between the two: whenever the supervisor is killed, the box is
// either still running or wholly saved. The caller holds op.
func (s *Supervisor) pause(ctx context.Context, req control.SaveRequest) error {
	if err := s.saveFrozen(ctx, req.Dir, vmm.InPlace); err != nil {
		return err
	}
	s.end(agentbox.End{Cause: agentbox.EndPaused})
	return s.machine.Kill()
}

// freeze stops the machine where it stands, or lets it go on. The caller holds op.
func (s *Supervisor) freeze(ctx context.Context, req control.FreezeRequest) error {
	if !req.Frozen {
		err := s.machine.Thaw(ctx)
		if err == nil && s.still.Swap(false) {
			s.meter.goOn()
		}
		return err
	}
	err := s.machine.Freeze(ctx)
	if err == nil && !s.still.Swap(true) {
		s.meter.standStill()
	}
	return err
}

// save saves the machine with its disks and lets it go on. The machine stands still for as long as
// copying its memory and disks takes.
func (s *Supervisor) save(ctx context.Context, req control.SaveRequest) error {
	how := vmm.WithDisks
	if req.Fork {
		how = vmm.Transient
	}
	if err := s.saveFrozen(ctx, req.Dir, how); err != nil {
		return err
	}
	return s.thaw(ctx)
}

// saveFrozen writes the machine's state to dir and leaves the machine frozen. It stops the guest's
// user processes first, so that whoever restores the state can reseed the guest before any of them
// runs: two machines must not draw the same random numbers. If saving fails the machine goes on.
// The error is Conflict for a machine that was booted although its kind has templates, as there is
// nothing to save it relative to.
func (s *Supervisor) saveFrozen(ctx context.Context, dir string, how vmm.Saving) error {
	snapshotter, ok := s.driver.(vmm.Snapshotter)
	if _, templater := s.driver.(vmm.Templater); !ok || templater && !s.cfg.Template {
		return agentbox.Errorf(agentbox.Conflict, "the machine cannot be saved: it was booted, not restored from a template").
			WithHint("agentbox reset starts the box from one, and keeps only the workspace")
	}
	if s.stalled() { // its devices cannot come to rest
		return agentbox.Errorf(agentbox.Unavailable, "box %s waits for bytes of its image", s.cfg.Box).WithHint("agentbox show %s says from where", s.cfg.Box)
	}
	if err := s.link.ask(ctx, (*guest.Client).Freeze); err != nil {
		return s.thawAfterFailure(ctx, err)
	}
	if err := snapshotter.Save(ctx, s.machine, dir, how); err != nil {
		return s.thawAfterFailure(ctx, err)
	}
	return nil
}

// thawAfterFailure lets the machine go on after a save that failed, and returns why it failed.
func (s *Supervisor) thawAfterFailure(ctx context.Context, cause error) error {
	if err := s.thaw(ctx); err != nil {
		s.log.Error("box does not go on after a failed save", "error", err)
	}
	return cause
}

// thaw lets a frozen machine run, and then its user processes.
func (s *Supervisor) thaw(ctx context.Context) error {
	if err := s.machine.Thaw(ctx); err != nil {
		return err
	}
	return s.link.ask(ctx, (*guest.Client).Thaw)
}

// stopAnytime is stop that also ends a machine which still waits for its daemon.
func (s *Supervisor) stopAnytime(ctx context.Context, req control.StopRequest, progress agentbox.Progress) (api.None, error) {
	select {
	case <-s.started:
	default:
		s.end(agentbox.End{Cause: agentbox.EndStopped})
	}
	return exclusive(s, s.stop)(ctx, req, progress)
}

// stop ends the machine: user processes first, then the workspace is synced and unmounted, then the
// power goes. The workspace survives in any case; what was not synced within the grace may be lost,
// as at a power failure.
func (s *Supervisor) stop(ctx context.Context, req control.StopRequest) error {
	if req.Grace > 0 && s.attached.Load() {
		s.detach(ctx, req.Grace)
	}
	s.end(agentbox.End{Cause: agentbox.EndStopped})
	return s.machine.Kill()
}

// detach ends user processes, syncs the workspace and unmounts it, or gives up after the grace.
func (s *Supervisor) detach(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := s.machine.Thaw(ctx); err != nil { // one that stands still cannot end politely
		s.log.Warn("box does not go on", "error", err)
	}
	client, err := s.link.client(ctx)
	if err == nil {
		err = client.Detach(ctx)
	}
	if err != nil {
		s.log.Warn("box did not stop politely", "error", err)
	}
}
