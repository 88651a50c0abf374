package host

import (
	"fmt"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/resources"
)

// share is how many CPUs and how much memory a box gets: what its configuration says, and for the
// rest what this machine affords beside what runs.
func (m *Manager) share(id agentbox.BoxID, cfg *config.Config, progress agentbox.Progress) (cpus int, memory int64) {
	if cfg.CPUs != 0 && cfg.Memory != 0 {
		return cfg.CPUs, cfg.Memory
	}
	machine, err := resources.Measure()
	if err != nil {
		m.log.Warn("cannot measure this machine: boxes get the least", "error", err)
	}
	s, fits := machine.Next(m.boxes.promised(id))
	if cfg.CPUs != 0 {
		s.CPUs = cfg.CPUs
	}
	if cfg.Memory != 0 {
		s.Memory = cfg.Memory
	} else if !fits && err == nil {
		progress.Say(fmt.Sprintf("memory is short: %.1f GiB are available, and this box may grow to %s; agentbox top shows what boxes take, agentbox pause frees it",
			inGiB(machine.Available), config.FormatSize(s.Memory)))
	}
	return s.CPUs, s.Memory
}

// Capacity tells what this machine has, what its boxes were promised, and what the next one gets.
func (m *Manager) Capacity() (api.Resources, error) {
	machine, err := resources.Measure()
	if err != nil {
		return api.Resources{}, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err)
	}
	p := m.boxes.promised(agentbox.BoxID{})
	next, _ := machine.Next(p)
	return api.Resources{Machine: machine, Promised: p, Next: next, Room: machine.Room(p)}, nil
}

func inGiB(bytes int64) float64 { return float64(bytes) / (1 << 30) }
