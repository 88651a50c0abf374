package bench

import (
	"math"
	"slices"
)

// summary describes a list of samples, in their unit. Percentiles are by nearest rank.
type summary struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// summarize returns zeros when there are no samples.
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

// nearestRank returns the smallest sample that is not exceeded by at least p percent of all
// samples. The result is always a measured value, never one between two: of twenty samples, the
// 95th percentile is the second worst.
func nearestRank(sorted []float64, p int) float64 {
	rank := int(math.Ceil(float64(p*len(sorted)) / 100))
	return sorted[max(rank, 1)-1]
}
