package bench

import "testing"

func TestNearestRank(t *testing.T) {
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[len(twenty)-1-i] = float64(i + 1) // unsorted on purpose
	}
	for _, c := range []struct {
		name    string
		samples []float64
		want    summary
	}{
		{"none", nil, summary{}},
		{"one", []float64{7}, summary{7, 7, 7, 7, 7}},
		{"two", []float64{9, 3}, summary{3, 3, 9, 9, 9}},
		{"three", []float64{5, 1, 3}, summary{1, 3, 5, 5, 5}},
		// The 95th percentile of twenty is the nineteenth, so one bad sample does not affect it.
		{"twenty", twenty, summary{1, 10, 19, 20, 20}},
	} {
		if got := summarize(c.samples); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if twenty[0] != 20 {
		t.Error("the samples were sorted in place: their order is part of the report")
	}
}
