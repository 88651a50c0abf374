package supervisor

import (
	"context"
	"net"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm"
)

// start brings the machine to life, greets the guest and opens the way in. What it starts beside the machine belongs to wg
// and ends with ctx.
func (s *Supervisor) start(ctx context.Context, files Files, sshListener net.Listener, wg *sync.WaitGroup) error {
	begun := time.Now()
	machine, err := s.startMachine(ctx, files)
	if err != nil {
		return err
	}
	runs := time.Since(begun)
	s.machine = machine
	s.link, err = newLink(machine.Stream(), s.cfg.Hostname, s.names, s.log)
	if err != nil {
		return err
	}
	if _, err := s.link.client(ctx); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "box %s: its machine runs but does not answer: %w", s.cfg.Box, err).
			WithHint("agentbox logs --console %s", s.cfg.Box)
	}
	s.log.Info("machine started", "life", s.cfg.Life, "template", s.cfg.Template, "runs", runs, "answers", time.Since(begun))
	s.ports = newPorts(ctx, s.link.ssh)
	relay := environment.NewRelay(s.link.hostKey, s.link.localKey.PublicKey(), s.link.ssh, s.log)
	wg.Go(func() { _ = relay.Serve(ctx, sshListener) })
	wg.Go(func() { relay.Prepare(ctx) })
	wg.Go(func() { s.link.keepClock(ctx) })
	wg.Go(func() { s.keepAlive(ctx) })
	return nil
}

func (s *Supervisor) startMachine(ctx context.Context, files Files) (vmm.Machine, error) {
	if !s.cfg.Template {
		return s.driver.Boot(ctx, s.cfg.Spec)
	}
	snapshotter, ok := s.driver.(vmm.Snapshotter)
	if !ok {
		return nil, agentbox.Errorf(agentbox.Internal, "the %s driver has no templates", s.cfg.Isolation)
	}
	template, err := snapshotter.InheritTemplate(files.Template)
	if err != nil {
		return nil, err
	}
	defer template.Close()
	return snapshotter.Restore(ctx, s.cfg.Spec, template, s.cfg.Saved)
}
