package host

import (
	"context"
	"fmt"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/resources"
)

// promised is what the boxes that run may grow to, one of them left out. Machines of the pool are
// nobody's and give way.
func (m *Manager) promised(except agentbox.BoxID) resources.Promised {
	var p resources.Promised
	for _, b := range m.all() {
		rec := b.record()
		if b.live() == nil || rec.Phase == phasePool || rec.Box.ID == except {
			continue
		}
		p = resources.Promised{Boxes: p.Boxes + 1, CPUs: p.CPUs + rec.Box.CPUs, Memory: p.Memory + rec.Box.Memory}
	}
	return p
}

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
	s, fits := machine.Next(m.promised(id))
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

// Resources tells what this machine has, what its boxes were promised, and what the next one gets.
func (m *Manager) Resources(context.Context, api.None, agentbox.Progress) (api.Resources, error) {
	machine, err := resources.Measure()
	if err != nil {
		return api.Resources{}, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err)
	}
	p := m.promised(agentbox.BoxID{})
	next, _ := machine.Next(p)
	return api.Resources{Machine: machine, Promised: p, Next: next, Room: machine.Room(p)}, nil
}

const lowMemory = 2 << 30

func (m *Manager) checkMemory() (string, error) {
	r, err := m.Resources(context.Background(), api.None{}, nil)
	if err != nil {
		return "", nil // no /proc on this system: nothing to tell
	}
	detail := fmt.Sprintf("%.1f GiB available, %s", inGiB(r.Machine.Available), agentbox.Plural(r.Machine.CPUs, "CPU"))
	if r.Machine.Available < lowMemory {
		return "", agentbox.Errorf(agentbox.NoSpace, "only %s", detail).WithHint("agentbox top shows what boxes take; agentbox pause frees it")
	}
	return fmt.Sprintf("%s; a box gets %s and %s unless it asks for more, and there is room for %s", detail,
		agentbox.Plural(r.Next.CPUs, "CPU"), config.FormatSize(r.Next.Memory), agentbox.PluralOf(r.Room, "more box", "more boxes")), nil
}

func inGiB(bytes int64) float64 { return float64(bytes) / (1 << 30) }
