package bench

import "testing"

// spread returns n samples around a middle.
func spread(n int, middle float64) (out []float64) {
	for i := range n {
		out = append(out, middle+float64(i%5)-2)
	}
	return out
}

func TestRatioInterval(t *testing.T) {
	got := ratioInterval(spread(20, 200), spread(20, 100))
	if got == nil || got[0] > 2 || got[1] < 2 || got[0] < 1.9 || got[1] > 2.1 {
		t.Errorf("the interval of a ratio of 2 is %v", got)
	}
	if again := ratioInterval(spread(20, 200), spread(20, 100)); *again != *got {
		t.Errorf("the same samples give %v and %v", got, again)
	}
	if got := ratioInterval(spread(4, 1), spread(20, 1)); got != nil {
		t.Errorf("an interval of four samples: %v", got)
	}
}

func TestDiffer(t *testing.T) {
	if p, yes := differ(spread(10, 100), spread(10, 120)); !yes || p > 0.001 {
		t.Errorf("100 and 120 do not differ: %v", p)
	}
	if p, yes := differ(spread(10, 100), spread(10, 100)); yes {
		t.Errorf("the same samples differ: %v", p)
	}
	if p, yes := differ(spread(3, 100), spread(3, 500)); yes {
		t.Errorf("three samples are enough to differ: %v", p)
	}
}
