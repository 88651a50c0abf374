package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/resources/yielding"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

// start brings the machine to life, greets the guest and opens the way in. What it starts beside
// the machine belongs to wg and ends with ctx.
//
// The order makes a start fast and safe. The machine starts before the daemon has the workspace
// ready, unless its saved state is still being written (Pending). The network is plugged in before
// the guest is greeted, and lets nothing through until a policy is in force. Ports, relay and jobs
// follow the greeting. What only watches comes last.
func (s *Supervisor) start(ctx context.Context, files Files, sshListener net.Listener, wg *sync.WaitGroup) error {
	begun := time.Now()
	asked := sync.OnceValues(func() (control.StartRequest, error) { return s.awaitStart(ctx) })
	wg.Go(func() { _, _ = s.ca() }) // meanwhile; its users get the error
	if s.cfg.Pending {
		if _, err := asked(); err != nil {
			return err
		}
	}
	// Meanwhile the daemon makes the workspace; the machine has it reserved and does not look at it
	// yet.
	machine, err := s.startMachine(ctx, files)
	if err != nil {
		return err
	}
	runs := time.Since(begun)
	s.machine = machine
	if s.link, err = newLink(machine, s.cfg.Hostname, s.names, s.log); err != nil {
		return err
	}
	req, err := asked()
	if err != nil {
		return err
	}
	if err := s.greetGuest(ctx, req.Guest); err != nil {
		return err
	}
	s.log.Info("machine started", "life", s.cfg.Life, "template", s.cfg.Template, "runs", runs, "waited", s.greetedAt.Sub(begun)-runs, "greeted", time.Since(s.greetedAt))
	s.openAccess(ctx, sshListener, wg)
	if req.Guest != nil {
		if err := s.becomeBox(ctx, *req.Guest); err != nil {
			return err
		}
	} else if s.attached.Load() { // it was a box before it was saved
		s.meter.begin()
	}
	s.watch(ctx, wg)
	return nil
}

// greetGuest plugs the network in and greets the guest. If become is not nil, the guest becomes
// that box during the greeting; nil is for a machine of the pool, and for one that was a box before
// it was saved.
func (s *Supervisor) greetGuest(ctx context.Context, become *place.Identity) error {
	var attach *protocol.AttachRequest
	if become != nil {
		var err error
		if attach, err = s.attachment(*become); err != nil {
			return err
		}
		attach.Hostname = "" // the Hello says it
	}
	ca, err := s.ca()
	if err != nil {
		return err
	}
	// It decides about everything that the guest sends, from the first packet on.
	s.gate = newGate(ca, s.guard, s.meter, s.accounting, toolsOf(home.Home{Dir: s.cfg.Home}, s.cfg.Box), s.log)
	if err := s.connectNetwork(s.gate); err != nil {
		return err
	}
	s.greetedAt = time.Now()
	if err := s.link.greetFirst(ctx, attach); err != nil {
		return greetingError(s.cfg.Box, s.machine, err)
	}
	return nil
}

// openAccess opens the way in: ports, the SSH relay and jobs. It also keeps the connection to the
// guest alive, and the guest's clock right.
func (s *Supervisor) openAccess(ctx context.Context, sshListener net.Listener, wg *sync.WaitGroup) {
	s.ports = newPorts(ctx, s.guest, environment.ForwardHooks{OnOpen: s.lease.hold, OnData: s.meter.touch})
	relay := environment.NewRelay(s.link.hostKey, s.link.localKey.PublicKey(), s.guest, s.log)
	s.keepJobs(ctx, relay, wg)
	wg.Go(func() { _ = relay.Serve(ctx, countingListener{sshListener, s.meter}) })
	wg.Go(func() { relay.Prepare(ctx) })
	wg.Go(func() { s.link.keepClock(ctx, s.frozen) })
	wg.Go(func() { s.keepAlive(ctx) })
}

// watch starts what looks at the box at intervals: limits, account, quota and memory.
func (s *Supervisor) watch(ctx context.Context, wg *sync.WaitGroup) {
	if s.cfg.Saved != "" && s.network != nil {
		wg.Go(func() { s.resetStaleConns(ctx) })
	}
	wg.Go(func() { s.watchTime(ctx) })
	wg.Go(func() { s.keepAccount(ctx) })
	wg.Go(func() { s.releaseMemory(ctx) })
	wg.Go(func() { s.watchDisk(ctx) })
	wg.Go(func() {
		if err := yielding.Sessions(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("a part of the machine is not as nice as it should be", "error", err)
		}
	})
}

// exitGrace is how long a failed greeting waits for the end of the machine, which would explain
// it: the machine's stream ends first.
const exitGrace = time.Second

var errShutDown = errors.New("it shut down")

// greetingError explains why a machine that was started did not answer.
func greetingError(box agentbox.BoxID, machine vmm.Machine, err error) error {
	select {
	case <-machine.Done():
		// Stock ssh prints this as it is, so the reason is in the message.
		return agentbox.Errorf(agentbox.Unavailable, "box %s: its machine ended: %w", box, cmp.Or(machine.Err(), errShutDown)).
			WithHint("run the command again; agentbox logs --console %s has the guest's last words", box)
	case <-time.After(exitGrace):
	}
	if refused := (*guest.Refused)(nil); errors.As(err, &refused) {
		return refused.Explain(fmt.Errorf("box %s: %w", box, refused), "agentbox logs --console "+box.String())
	}
	return agentbox.Errorf(agentbox.Unavailable, "box %s: its machine runs but does not answer: %w", box, err).
		WithHint("agentbox logs --console %s", box)
}

// guest is the connection to the guest for sessions, ports and jobs. When it cannot be made, the
// error explains the machine's end if it has ended.
func (s *Supervisor) guest(ctx context.Context) (*ssh.Client, error) {
	client, err := s.link.ssh(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, greetingError(s.cfg.Box, s.machine, err)
	}
	return client, err
}

// startTimeout is how long a running machine waits for the daemon to ask for it. Making a large
// workspace takes seconds; a daemon that died meanwhile never asks, and the machine must not wait
// for ever.
const startTimeout = 5 * time.Minute

// awaitStart waits for the daemon's request to greet the guest, which says what box the machine
// becomes. The error is Unavailable if none comes, or the supervisor is told to stop.
func (s *Supervisor) awaitStart(ctx context.Context) (control.StartRequest, error) {
	select {
	case req := <-s.startRequests:
		return req, nil
	case <-s.ended:
	case <-ctx.Done():
	case <-time.After(startTimeout):
	}
	return control.StartRequest{}, agentbox.Errorf(agentbox.Unavailable, "box %s: nobody asked for its machine", s.cfg.Box)
}

// startMachine boots the machine, or restores it from the inherited template, from a saved state, or
// from a saved state relative to the template.
func (s *Supervisor) startMachine(ctx context.Context, files Files) (vmm.Machine, error) {
	if err := s.openImage(); err != nil {
		return nil, err
	}
	if !s.cfg.Template && s.cfg.Saved == "" {
		return s.driver.Boot(ctx, s.cfg.Spec)
	}
	snapshotter, ok := s.driver.(vmm.Snapshotter)
	if !ok {
		return nil, agentbox.Errorf(agentbox.Internal, "the %s driver restores no machines", s.cfg.Isolation)
	}
	var template vmm.Template
	if s.cfg.Template {
		templater, ok := s.driver.(vmm.Templater)
		if !ok {
			return nil, agentbox.Errorf(agentbox.Internal, "the %s driver has no templates", s.cfg.Isolation)
		}
		var err error
		if template, err = templater.InheritTemplate(files.Template); err != nil {
			return nil, err
		}
		defer template.Close()
	}
	if s.cfg.Resume {
		return s.resume(ctx, snapshotter, template)
	}
	return snapshotter.Restore(ctx, s.cfg.Spec, template, s.cfg.Saved)
}

// resume restores the machine of a paused box. The saved memory fits the disks only until the guest
// runs, so it is renamed before that and gets its name back only if the guest never ran: a state
// that has the name Saved may be restored, whatever is killed meanwhile. A damaged state is refused
// each time, so it keeps its name, which shows the user that the box was paused.
func (s *Supervisor) resume(ctx context.Context, snapshotter vmm.Snapshotter, template vmm.Template) (vmm.Machine, error) {
	if err := setAside(s.names, durable.SyncDir); err != nil {
		return nil, err
	}
	machine, err := snapshotter.Restore(ctx, s.cfg.Spec, template, s.names.Resuming())
	if ran := (*vmm.MayHaveRun)(nil); err != nil && (!errors.As(err, &ran) || agentbox.CodeOf(err) == agentbox.Corrupt) {
		err = errors.Join(err, os.Rename(s.names.Resuming(), s.names.Saved()), durable.SyncDir(s.names.Dir))
	}
	return machine, err
}

// setAside renames the saved machine of a box, whose guest does not run, so that not even a power
// loss lets it be restored once the guest has. After an error it may be restored as before.
func setAside(names home.Box, syncDir func(string) error) error {
	if err := os.Rename(names.Saved(), names.Resuming()); err != nil {
		return err
	}
	if err := syncDir(names.Dir); err != nil {
		return errors.Join(err, os.Rename(names.Resuming(), names.Saved()))
	}
	return nil
}
