package scenario

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	earlier := tally{delivered: 5, merged: 1}
	for _, c := range []struct {
		name string
		now  tally
		good bool
	}{
		{"each told", tally{delivered: 105, merged: 1}, true},
		{"some merged", tally{delivered: 65, merged: 41}, true},
		{"one lost", tally{delivered: 104, merged: 1}, false},
		{"one told twice", tally{delivered: 106, merged: 1}, false},
	} {
		if err := c.now.since(earlier).check(100); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestMergedUpdatesDoNotCount(t *testing.T) {
	result := tally{delivered: 400, merged: 600}.rate(2 * time.Second)
	if result["rate"] != 200 || result["told"] != 400 || result["told"+Reference] != 1000 {
		t.Errorf("%v", result)
	}
}

func TestQuantilesNeedEveryUpdate(t *testing.T) {
	if result, err := quantiles([]float64{3, 1, 2}, 3); err != nil || result["p50"] != 2 || result["p99"] != 3 {
		t.Errorf("%v, %v", result, err)
	}
	if _, err := quantiles([]float64{3, 1}, 3); err == nil {
		t.Error("two of three updates were taken for all")
	}
}
