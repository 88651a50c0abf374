package bench

import (
	"math"
	"slices"
)

// summary is what a list of samples comes down to, in their unit. Percentiles are by nearest rank.
type summary struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// summarize gives zeros when there are no samples.
func summarize(samples []float64) summary {
	if len(samples) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	return summary{
		Min: sorted[0], P50: nearestRank(sorted, 50), P95: nearestRank(sorted, 95), P99: nearestRank(sorted, 99),
		Max: sorted[len(sorted)-1],
	}
}

// nearestRank is the smallest sample that at least p percent of all samples do not exceed. It is
// always a value that was measured, never one between two: of twenty samples the 95th percentile is
// the second worst.
func nearestRank(sorted []float64, p int) float64 {
	rank := int(math.Ceil(float64(p*len(sorted)) / 100))
	return sorted[max(rank, 1)-1]
}
