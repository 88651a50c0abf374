package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"agentbox/vmm"
	"agentbox/vmm/netstack"
)

// plugIn gives the machine its network: a stack at the other end of its cable that asks h about everything. What the guest
// sends before waits in the cable. It ends with the supervisor; a box that goes on under another one finds its
// connections reset.
func (s *Supervisor) plugIn(h netstack.Handler) error {
	n, ok := s.machine.(vmm.Networked)
	if !ok || n.Link() == nil {
		return nil
	}
	stack, err := netstack.New(n.Link(), h, netstack.Config{})
	if err != nil {
		return err
	}
	s.network = stack
	stack.Start()
	return nil
}

// unplug cuts the cable.
func (s *Supervisor) unplug() {
	if s.network == nil {
		return
	}
	if err := s.network.Close(); err != nil {
		s.log.Warn("the box's network did not close well", "error", err)
	}
}

// sealed is the policy of a box that may reach nothing.
type sealed struct{ log *slog.Logger }

var errSealed = errors.New("this box has no network")

func (sealed) Lookup(context.Context, netstack.Question) error                   { return errSealed }
func (sealed) Accept(context.Context, netstack.Destination) error                { return errSealed }
func (sealed) Stream(context.Context, netstack.Destination, netstack.Conn) error { return errSealed }
func (sealed) Packets(context.Context, netstack.Destination, net.Conn) error     { return errSealed }
func (h sealed) Attempt(a netstack.Attempt) {
	h.log.Info("refused", "kind", a.Kind, "what", a.Detail, "count", a.Count)
}
