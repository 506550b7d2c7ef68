package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// soakSample has the resources in use at the end of a lap (the run of one informer), once all changes are delivered and
// committed.
type soakSample struct {
	heap       int64 // bytes of live objects
	goroutines int
	file       int64
}

// Limits of growth between the median of the first third of the laps (runs of one informer) and the median of the last
// third. The heap of an equal state varies by a tenth of a megabyte. A leaked pod takes 4 KB: one a second for twenty
// minutes adds 3 MB. Connections and commits use a few goroutines at times. The file grows in bbolt's steps; if bbolt
// did not reuse pages, the file would grow by a gigabyte in twenty minutes.
const (
	soakHeapGrowth      = 1 << 20
	soakGoroutineGrowth = 4
	soakFileGrowth      = 32 << 20
)

func grown(t *testing.T, name string, samples []soakSample) (problems []string) {
	t.Helper()
	for _, m := range []struct {
		what  string
		limit int64
		of    func(soakSample) int64
	}{
		{"bytes of live heap", soakHeapGrowth, func(s soakSample) int64 { return s.heap }},
		{"goroutines", soakGoroutineGrowth, func(s soakSample) int64 { return int64(s.goroutines) }},
		{"bytes of file", soakFileGrowth, func(s soakSample) int64 { return s.file }},
	} {
		third := len(samples) / 3
		first, last := medianOf(samples[:third], m.of), medianOf(samples[len(samples)-third:], m.of)
		t.Logf("%s, %d laps: %d %s, %d in the first third", name, len(samples), last, m.what, first)
		if last-first > m.limit {
			problems = append(problems, fmt.Sprintf("%s: %d %s, %d in the first third of the laps: more than %d has been added",
				name, last, m.what, first, m.limit))
		}
	}
	return problems
}

func medianOf(samples []soakSample, of func(soakSample) int64) int64 {
	var values []int64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// TestSoakGrown checks that a leak of one object a second exceeds the limits of the long soak.
func TestSoakGrown(t *testing.T) {
	const laps, seconds, object = 57, 20, 4 << 10 // laps of each residency in twenty minutes
	for name, c := range map[string]struct {
		each soakSample // growth per lap
		want int
	}{
		"flat":                    {soakSample{}, 0},
		"one object a second":     {soakSample{heap: seconds * object}, 1},
		"a goroutine a restart":   {soakSample{goroutines: 3}, 1},
		"pages that are not used": {soakSample{file: 10_000 * 4096}, 1},
	} {
		var samples []soakSample
		for n := range int64(laps) {
			noise := n * 7 % 5
			samples = append(samples, soakSample{
				heap:       20<<20 + noise<<15 + n*c.each.heap,
				goroutines: 40 + int(noise+n*int64(c.each.goroutines)),
				file:       16<<20 + noise<<20 + n*c.each.file,
			})
		}
		if got := grown(t, "All", samples); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
