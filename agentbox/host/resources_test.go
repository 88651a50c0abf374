package host

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/supervisors"
	"agentbox/agentbox/resources"
)

// What boxes that run may grow to counts, and neither those that do not run, nor the pool, nor the
// box itself.
func TestPromised(t *testing.T) {
	m := manage(t, newHome(t))
	var own agentbox.BoxID
	for name, phase := range map[string]phase{"runs": phaseReady, "own": phaseReady, "pooled": phasePool, "stopped": phaseReady} {
		b := &box{rec: aBox(name), sup: &supervisors.Supervisor{}}
		b.rec.Phase, b.rec.Box.CPUs, b.rec.Box.Memory = phase, 2, 3<<30
		switch name {
		case "own":
			own = b.rec.Box.ID
		case "stopped":
			b.sup = nil
		}
		m.boxes.put(b)
		t.Cleanup(func() { b.set(func(b *box) { b.sup = nil }) })
	}
	if got, want := m.boxes.promised(own), (resources.Promised{Boxes: 1, CPUs: 2, Memory: 3 << 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A configuration that says a size gets it, and each half that it leaves open follows the machine.
func TestShare(t *testing.T) {
	m := manage(t, newHome(t))
	quiet := agentbox.Progress(func(agentbox.Event) {})
	if cpus, memory := m.share(agentbox.NewBoxID(), &config.Config{CPUs: 7, Memory: 3 << 30}, quiet); cpus != 7 || memory != 3<<30 {
		t.Errorf("%d CPUs, %d bytes", cpus, memory)
	}
	if cpus, memory := m.share(agentbox.NewBoxID(), &config.Config{CPUs: 7}, quiet); cpus != 7 || memory < 1<<30 {
		t.Errorf("%d CPUs, %d bytes", cpus, memory)
	}
	if cpus, memory := m.share(agentbox.NewBoxID(), &config.Config{Memory: 3 << 30}, quiet); cpus < 1 || memory != 3<<30 {
		t.Errorf("%d CPUs, %d bytes", cpus, memory)
	}
}
