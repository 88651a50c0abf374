// Package capacity tells what a box gets of this machine when its configuration leaves it open, and
// how many more boxes there is room for. It reserves nothing: memory that was promised to several
// boxes may be asked for by all of them, and then the kernel of this host decides. host calls it
// when a box is made or reset; `doctor` and `top` show what Look says. The arithmetic is in
// agentbox/resources.
package capacity

import (
	"fmt"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/resources"
)

// Capacity is this machine's, beside the boxes that run.
type Capacity struct {
	// Promised is what the boxes that run may grow to, one of them left out.
	Promised func(except agentbox.BoxID) resources.Promised
	Measure  func() (resources.Machine, error)
	Log      *slog.Logger
}

// Share is how many CPUs and how much memory a box gets: what its configuration says, and for the
// rest what this machine affords beside what runs. id is a box that is made anew, whose own promise
// does not count; memory is in bytes. A machine that cannot be measured gives the least, which is
// logged.
func (c Capacity) Share(id agentbox.BoxID, cfg *config.Config, progress agentbox.Progress) (cpus int, memory int64) {
	if cfg.CPUs != 0 && cfg.Memory != 0 {
		return cfg.CPUs, cfg.Memory
	}
	machine, err := c.Measure()
	if err != nil {
		c.Log.Warn("cannot measure this machine: boxes get the least", "error", err)
	}
	s, fits := machine.Next(c.Promised(id))
	if cfg.CPUs != 0 {
		s.CPUs = cfg.CPUs
	}
	if cfg.Memory != 0 {
		s.Memory = cfg.Memory
	} else if !fits && err == nil {
		progress.Say(fmt.Sprintf("memory is short: %.1f GiB are available, and this box may grow to %s; agentbox top shows what boxes take, agentbox pause frees it",
			float64(machine.Available)/(1<<30), config.FormatSize(s.Memory)))
	}
	return s.CPUs, s.Memory
}

// Look tells what this machine has, what its boxes were promised, and what the next one gets.
// Unavailable where the machine cannot be measured.
func (c Capacity) Look() (api.Resources, error) {
	machine, err := c.Measure()
	if err != nil {
		return api.Resources{}, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err)
	}
	p := c.Promised(agentbox.BoxID{})
	next, _ := machine.Next(p)
	return api.Resources{Machine: machine, Promised: p, Next: next, Room: machine.Room(p)}, nil
}
