package capacity

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/resources"
)

const gib = 1 << 30

// of is the capacity of a machine beside boxes that were promised so much.
func of(m resources.Machine, p resources.Allocated, err error) Capacity {
	return Capacity{
		Allocated: func(agentbox.BoxID) resources.Allocated { return p }, Log: slog.New(slog.DiscardHandler),
		Measure: func() (resources.Machine, error) { return m, err },
	}
}

// A configuration that says a size gets it, and each half that it leaves open follows the machine.
func TestShare(t *testing.T) {
	big := resources.Machine{CPUs: 8, Memory: 56 * gib, Available: 50 * gib}
	full := resources.Allocated{Boxes: 20, CPUs: 24, Memory: 84 * gib}
	for name, c := range map[string]struct {
		machine resources.Machine
		running resources.Allocated
		err     error
		cfg     config.Config
		cpus    int
		memory  int64
		says    string
	}{
		"both":              {machine: big, cfg: config.Config{CPUs: 7, Memory: 3 * gib}, cpus: 7, memory: 3 * gib},
		"CPUs":              {machine: big, cfg: config.Config{CPUs: 7}, cpus: 7, memory: 8 * gib},
		"memory":            {machine: big, cfg: config.Config{Memory: 3 * gib}, cpus: 4, memory: 3 * gib},
		"neither":           {machine: big, cpus: 4, memory: 8 * gib},
		"no room":           {machine: big, running: full, cpus: 2, memory: gib, says: "memory is short: 50.0 GiB"},
		"no room, but said": {machine: big, running: full, cfg: config.Config{Memory: 3 * gib}, cpus: 2, memory: 3 * gib},
		"at least less":     {machine: big, cfg: config.Config{Least: config.Least{CPUs: 2, Memory: gib}}, cpus: 4, memory: 8 * gib},
		"at least more":     {machine: big, cfg: config.Config{Least: config.Least{CPUs: 6, Memory: 20 * gib}}, cpus: 6, memory: 20 * gib},
		"more CPUs":         {machine: big, cfg: config.Config{Source: "dev.json", Least: config.Least{CPUs: 64}}, cpus: 8, memory: 8 * gib, says: "dev.json needs 64 CPUs, and this machine has 8"},
		"more memory":       {machine: big, cfg: config.Config{Least: config.Least{Memory: 477 * gib}}, cpus: 4, memory: 51609 << 20, says: "477GiB of memory is more than this machine has: the box may grow to 51609MiB"},
		"too much said":     {machine: big, cfg: config.Config{CPUs: 7, Memory: 477 * gib}, cpus: 7, memory: 51609 << 20, says: "477GiB of memory is more"},
		"said, unmeasured":  {err: errors.New("no /proc"), cfg: config.Config{CPUs: 7, Memory: 477 * gib}, cpus: 7, memory: 477 * gib},
		"not measured":      {err: errors.New("no /proc"), cpus: 1, memory: gib},
	} {
		output := ""
		cpus, memory := of(c.machine, c.running, c.err).Share(agentbox.BoxID{}, &c.cfg, func(e agentbox.Event) { output += e.Detail })
		if cpus != c.cpus || memory != c.memory || (c.says == "") != (output == "") || !strings.HasPrefix(output, c.says) {
			t.Errorf("%s: %d CPUs, %d bytes, says %q", name, cpus, memory, output)
		}
	}
}

func TestLook(t *testing.T) {
	machine, running := resources.Machine{CPUs: 8, Memory: 56 * gib, Available: 50 * gib}, resources.Allocated{Boxes: 1, CPUs: 4, Memory: 8 * gib}
	got, err := of(machine, running, nil).Report()
	if err != nil || got.Machine != machine || got.Allocated != running || got.Next.Memory != 8*gib || got.Room < 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := of(machine, running, errors.New("no /proc")).Report(); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("not measured: %v", err)
	}
}
