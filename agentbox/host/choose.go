package host

import (
	"context"
	"runtime"

	"agentbox/agentbox"
	"agentbox/vmm"
)

func numCPU() int { return runtime.NumCPU() }

// choice is the isolation a box gets and why, in one line.
type choice struct {
	kind   agentbox.Isolation
	facts  vmm.Facts
	reason string
}

// choose settles on a kind of isolation for a box.
func (m *Manager) choose(ctx context.Context, want agentbox.Isolation) (choice, error) {
	kind := want
	if want == agentbox.Auto || want == "" {
		kind = agentbox.MicroVM
	}
	driver, err := m.driver(kind)
	if err != nil {
		return choice{}, err
	}
	facts, err := driver.Probe(ctx, false)
	if err != nil {
		return choice{}, err
	}
	return choice{kind: kind, facts: facts, reason: facts.Reason}, nil
}
