package scenario

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	earlier := tally{told: 5, merged: 1}
	for _, c := range []struct {
		name string
		now  tally
		good bool
	}{
		{"each told", tally{told: 105, merged: 1}, true},
		{"some merged", tally{told: 65, merged: 41}, true},
		{"one lost", tally{told: 104, merged: 1}, false},
		{"one told twice", tally{told: 106, merged: 1}, false},
	} {
		if err := c.now.since(earlier).check(100); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestMergedUpdatesAreNoRate checks that merged updates do not count for the rate.
func TestMergedUpdatesAreNoRate(t *testing.T) {
	result := tally{told: 400, merged: 600}.rate(2 * time.Second)
	if result["rate"] != 200 || result["told"] != 400 || result["told"+Reference] != 1000 {
		t.Errorf("%v", result)
	}
}

func TestLatenciesAreThoseOfEveryUpdate(t *testing.T) {
	if result, err := quantiles([]float64{3, 1, 2}, 3); err != nil || result["p50"] != 2 || result["p99"] != 3 {
		t.Errorf("%v, %v", result, err)
	}
	if _, err := quantiles([]float64{3, 1}, 3); err == nil {
		t.Error("two of three updates were taken for all")
	}
}
