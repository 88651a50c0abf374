package host

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/resources"
)

// What boxes that run may grow to counts, and neither those that do not run, nor the pool, nor the
// box itself.
func TestPromised(t *testing.T) {
	boxes := newTable(home.Home{})
	var own agentbox.BoxID
	for name, phase := range map[string]phase{"runs": phaseReady, "own": phaseReady, "pooled": phasePool, "stopped": phaseReady} {
		b := &box{rec: newTestRecord(name), live: live(t, newTestRecord(name))}
		b.rec.Phase, b.rec.Box.CPUs, b.rec.Box.Memory = phase, 2, 3<<30
		switch name {
		case "own":
			own = b.rec.Box.ID
		case "stopped":
			b.live = nil
		}
		boxes.put(b)
	}
	if got, want := boxes.allocated(own), (resources.Allocated{Boxes: 1, CPUs: 2, Memory: 3 << 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
