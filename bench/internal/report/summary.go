package report

import "slices"

// Summary summarizes several runs. The median is not affected by one disturbed run; minimum and maximum show that run.
type Summary struct {
	// Runs is the number of runs; if it is 0 the other fields are zero too.
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize summarizes values in any order. It does not modify them.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Summary{Runs: n, Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}
