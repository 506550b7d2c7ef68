package read

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/store/internal/body"
)

// TestShares: what is worth it is shared, however large the records are.
func TestShares(t *testing.T) {
	many := func(n, size int) []Record {
		return slices.Repeat([]Record{{Body: body.Body{Size: size}}}, n)
	}
	pending := slices.Repeat([]Record{{Obj: &corev1.Pod{}}}, 500)
	huge := many(1, 8<<20)
	for name, test := range map[string]struct {
		records []Record
		want    []int // in each run
	}{
		"None":         {nil, []int{0}},
		"Few":          {many(60, 100), []int{60}},
		"Small":        {many(500, 100), []int{125, 125, 125, 125}},
		"Large":        {many(40, 100_000), []int{10, 10, 10, 10}},
		"Two":          {many(2, 1<<20), []int{1, 1}},
		"Pending":      {pending, []int{500}},
		"HugeAtFirst":  {slices.Concat(huge, many(40, 1000)), []int{1, 40}},
		"HugeAtLast":   {slices.Concat(many(40, 1000), huge), []int{40, 1}},
		"HugeBetween":  {slices.Concat(many(40, 1000), huge, many(40, 1000)), []int{40, 1, 40}},
		"LargeBetween": {slices.Concat(many(250, 3000), many(2, 1<<20), many(250, 3000)), []int{199, 52, 52, 199}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, run := range shares(test.records, 4) {
				got = append(got, len(run))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("runs of %d, want %d", got, test.want)
			}
		})
	}
}
