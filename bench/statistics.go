package bench

import (
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/perf/benchmath"
)

const (
	// minInterval is the least number of samples of either side for an interval: of fewer, the
	// resampled medians are the samples themselves.
	minInterval = 5
	resamples   = 2000
	confidence  = 0.95
)

// ratioInterval estimates where the ratio of two medians is, by the percentile bootstrap: it draws
// both lists of samples again and again, with replacement, and leaves out the extreme ratios (Efron,
// Bootstrap Methods: Another Look at the Jackknife, 1979). The same samples always give the same
// result. It is nil where there are too few samples.
func ratioInterval(ours, theirs []float64) *[2]float64 {
	if len(ours) < minInterval || len(theirs) < minInterval {
		return nil
	}
	random, ratios := rand.New(rand.NewPCG(1, 2)), make([]float64, resamples)
	for i := range ratios {
		ratios[i] = resampledMedian(ours, random) / resampledMedian(theirs, random)
	}
	slices.Sort(ratios)
	tail := int(math.Round(resamples * (1 - confidence) / 2))
	return &[2]float64{ratio(ratios[tail], 1), ratio(ratios[resamples-1-tail], 1)}
}

func resampledMedian(samples []float64, random *rand.Rand) float64 {
	drawn := make([]float64, len(samples))
	for i := range drawn {
		drawn[i] = samples[random.IntN(len(samples))]
	}
	slices.Sort(drawn)
	return nearestRank(drawn, 50)
}

// differ reports whether two lists of samples differ, by the Mann-Whitney U-test, as benchstat does.
// p is the probability of such samples if they do not. With few samples it can be too large to tell
// anything.
func differ(a, b []float64) (p float64, yes bool) {
	limits := benchmath.DefaultThresholds
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(a), &limits), benchmath.NewSample(slices.Clone(b), &limits))
	return c.P, c.P < c.Alpha
}
