package night

import "testing"

// TestOffice holds the rules to what is asked of a night: nothing lost or done twice, nine tenths of what
// is idle in use, a third for each of three members, of whom one submits half.
func TestOffice(t *testing.T) {
	check(t, Run(Office(1)))
}

// Machines that never say that they fall asleep cost time, and now and then a task that three of them took
// down.
func TestSilence(t *testing.T) {
	cfg := Office(2)
	cfg.Machines, cfg.Silent = 50, 1
	cfg.Members = []Member{{Tasks: 1000}, {Tasks: 500}, {Tasks: 500}}
	r := Run(cfg)
	if r.GaveUp > 20 {
		t.Errorf("%d tasks gave up", r.GaveUp)
	}
	r.Done, r.GaveUp = r.Done+r.GaveUp, 0
	check(t, r)
}

func check(t *testing.T, r Result) {
	t.Helper()
	t.Logf("%+v", r)
	if r.GaveUp+r.Open+r.Twice > 0 {
		t.Errorf("%d tasks gave up, %d are open, %d were done twice", r.GaveUp, r.Open, r.Twice)
	}
	if r.Used < 0.9 {
		t.Errorf("%.3f of the idle time is used", r.Used)
	}
	for i, share := range r.Shares {
		if fair := 1 / float64(len(r.Shares)); share < 0.9*fair || share > 1.1*fair {
			t.Errorf("member %d has %.3f of it", i, share)
		}
	}
	if r.Worker > 2048 || r.Owner > 4200 { // 2048 is the aim of both
		t.Errorf("%.0f bytes a second at a worker, %.0f at an owner", r.Worker, r.Owner)
	}
}
