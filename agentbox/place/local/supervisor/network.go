package supervisor

import (
	"agentbox/vmm"
	"agentbox/vmm/netstack"
)

// connectNetwork connects the machine's network card to a stack that asks h about everything. What
// the guest sent before waits in the link. The stack ends with the supervisor; a box that goes on
// under another one finds its connections reset. A machine without a network card is no failure:
// its box has no network.
func (s *Supervisor) connectNetwork(h netstack.Handler) error {
	n, ok := s.machine.(vmm.Networked)
	if !ok || n.Link() == nil {
		s.log.Warn("the machine has no network card")
		return nil
	}
	stack, err := netstack.New(n.Link(), h)
	if err != nil {
		return err
	}
	s.network = stack
	stack.Start()
	return nil
}

func (s *Supervisor) disconnectNetwork() {
	if s.network == nil {
		return
	}
	if err := s.network.Close(); err != nil {
		s.log.Warn("the box's network did not close well", "error", err)
	}
}
