package idle

import "testing"

// after returns what two CPUs have done after so many seconds.
func after(seconds, busy, waited float64, runnable int) sample {
	return sample{cpus: 2, busy: busy, all: 2 * seconds, waited: &waited, runnable: runnable}
}

// What tasks of others did is not this machine's load: neither when they have just ended, nor later.
func TestMeterForgetsGuests(t *testing.T) {
	var m Meter
	for _, step := range []struct {
		what     string
		now      sample
		guests   bool
		load     float64
		pressure float64 // -1 for unknown
	}{
		{"it has just begun", after(1000, 500, 7, 1), false, 0.5, -1},
		{"idle", after(1010, 500, 7, 0), false, 0, 0},
		{"busy", after(1020, 520, 12, 2), false, 0.5, 25},
		{"a task of others", after(1030, 540, 22, 2), true, 1, -1},
		{"it goes on", after(1040, 560, 32, 2), true, 1, -1},
		{"it has just ended", after(1040.5, 561, 32.5, 0), false, 0, -1},
		{"nothing since", after(1042, 561, 32.5, 0), false, 0.25, 25},
		{"the owner's", after(1050, 570, 34, 1), false, 0.5, 20},
		{"a minute later", after(1150, 571, 34, 0), false, 0.005, 0},
	} {
		load, pressure := m.add(step.now, step.guests)
		if load != step.load || (pressure == nil) != (step.pressure < 0) || pressure != nil && *pressure != step.pressure {
			t.Errorf("%s: load %v, pressure %v, want %v, %v", step.what, load, pressure, step.load, step.pressure)
		}
	}
}

// However often it is asked, it remembers a minute.
func TestMeterIsBounded(t *testing.T) {
	var m Meter
	for n := range 10000 {
		m.add(after(float64(n)/4, float64(n), 0, 0), false)
	}
	if len(m.all) > longest+2 {
		t.Errorf("%d samples", len(m.all))
	}
}
