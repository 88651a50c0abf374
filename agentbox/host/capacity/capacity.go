// Package capacity decides what a box gets of this machine where its configuration does not say,
// and how many more boxes fit. It reserves nothing: several boxes may use all the memory they were
// promised at once, and then the host's kernel decides. The arithmetic is in agentbox/resources.
package capacity

import (
	"fmt"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/resources"
)

// Capacity is what this machine has beside the boxes that run.
type Capacity struct {
	// Allocated is what the running boxes, except one, may grow to.
	Allocated func(except agentbox.BoxID) resources.Allocated
	Measure   func() (resources.Machine, error)
	Log       *slog.Logger
}

// Share is how many CPUs and how much memory, in bytes, a box gets: what its configuration says,
// else what this machine can afford and at least what the configuration needs, but never more than
// this machine has. id is a box that is being reset, whose own promise does not count. If the
// machine cannot be measured, the box gets the minimum, and a warning is logged.
func (c Capacity) Share(id agentbox.BoxID, cfg *config.Config, progress agentbox.Progress) (cpus int, memory int64) {
	machine, err := c.Measure()
	if err != nil {
		c.Log.Warn("cannot measure this machine: boxes get the least", "error", err)
		machine = resources.Machine{}
	}
	s, fits := machine.NextShare(c.Allocated(id))
	switch {
	case cfg.CPUs != 0:
		s.CPUs = cfg.CPUs
	case err == nil && cfg.Least.CPUs > machine.CPUs:
		progress.Note(fmt.Sprintf("%s needs %s, and this machine has %d: the box gets those", cfg.Source, agentbox.Plural(cfg.Least.CPUs, "CPU"), machine.CPUs))
		s.CPUs = machine.CPUs
	default:
		s.CPUs = max(s.CPUs, cfg.Least.CPUs)
	}
	asked := cfg.Least.Memory
	if cfg.Memory != 0 {
		asked, s.Memory = cfg.Memory, cfg.Memory
	}
	switch s.Memory = max(s.Memory, asked); {
	case err == nil && asked > machine.Most():
		s.Memory = machine.Most()
		progress.Note(fmt.Sprintf("%s of memory is more than this machine has: the box may grow to %s", config.FormatSize(asked), config.FormatSize(s.Memory)))
	case cfg.Memory == 0 && !fits && err == nil:
		progress.Note(fmt.Sprintf("memory is short: %.1f GiB are available, and this box may grow to %s; agentbox top shows what boxes take, agentbox pause frees it",
			float64(machine.Available)/(1<<30), config.FormatSize(s.Memory)))
	}
	return s.CPUs, s.Memory
}

// HasRoom tells whether one more box of a share may begin, beside those of tasks, of which some may
// not run yet. Other boxes and other programs count, too. If the machine cannot be measured, there is
// no room.
func (c Capacity) HasRoom(tasks []resources.Share, next resources.Share) bool {
	machine, err := c.Measure()
	if err != nil {
		return false
	}
	p := c.Allocated(agentbox.BoxID{})
	var begun resources.Allocated
	for _, share := range tasks {
		begun.CPUs, begun.Memory = begun.CPUs+share.CPUs, begun.Memory+share.Memory
	}
	p.CPUs, p.Memory = max(p.CPUs, begun.CPUs), max(p.Memory, begun.Memory)
	return machine.Fits(p, next)
}

// Report reports what this machine has, what its boxes were promised, and what the next one gets.
// Unavailable if the machine cannot be measured.
func (c Capacity) Report() (api.Resources, error) {
	machine, err := c.Measure()
	if err != nil {
		return api.Resources{}, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err)
	}
	p := c.Allocated(agentbox.BoxID{})
	next, _ := machine.NextShare(p)
	return api.Resources{Machine: machine, Allocated: p, Next: next, Room: machine.Headroom(p)}, nil
}
