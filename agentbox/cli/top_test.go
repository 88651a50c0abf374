package cli

import (
	"testing"
	"time"

	"agentbox/agentbox"
)

func TestLoadsOf(t *testing.T) {
	box := func(n byte, cpu int64) agentbox.Box {
		return agentbox.Box{ID: agentbox.BoxID{n}, Usage: &agentbox.Usage{CPUMillis: cpu}}
	}
	before := []agentbox.Box{box(1, 1000), box(2, 5000), box(3, 900)}
	now := []agentbox.Box{box(1, 1500), box(2, 8000), box(3, 100), box(4, 200), {ID: agentbox.BoxID{5}}}
	want := map[byte]float64{1: 25, 2: 150, 3: 0, 4: 10, 5: 0} // the third box's machine was replaced
	loads := loadsOf(before, now, 2*time.Second)
	if len(loads) != len(want) || loads[0].ID[0] != 2 {
		t.Fatalf("%+v", loads)
	}
	for _, l := range loads {
		if l.CPUPercent != want[l.ID[0]] {
			t.Errorf("box %d: %v%%, want %v%%", l.ID[0], l.CPUPercent, want[l.ID[0]])
		}
	}
	rows := loadFacts(loads).table
	if len(rows) != 6 || rows[1][3] != "150%" {
		t.Errorf("%q", rows)
	}
}
