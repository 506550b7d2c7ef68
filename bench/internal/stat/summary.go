package stat

import "slices"

// Summary is what several runs said.
type Summary struct {
	// Runs is how many there were; the rest is zero if there were none.
	Runs int `json:"runs"`
	// Median is the middle value, or the mean of the two in the middle.
	Median float64 `json:"median"`
	// Min and Max are the spread.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Of sums up values, in any order; they are not modified.
func Of(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Summary{Runs: len(sorted), Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Quantile returns the value below which the part q (0 to 1) of sorted lies, by the nearest rank; 0 if there is none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q * float64(len(sorted)))
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
