package report

import "slices"

// Summary sums up several runs: the median, which a disturbed run does not move, and the spread, which shows that there
// was one.
type Summary struct {
	// Runs is the number of runs; if it is 0 the other fields are zero too.
	Runs int `json:"runs"`
	// Median is the middle value, or the mean of the two in the middle.
	Median float64 `json:"median"`
	// Min and Max are the spread.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Summarize sums up values, in any order; they are not modified.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Summary{Runs: n, Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}
