package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSteadyTime: what the clock on the wall said while the store was closed counts for a day at most, and never back.
func TestSteadyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Date(2027, time.May, 1, 0, 0, 0, 0, time.UTC)
		left := times{wall: wall, steady: wall.AddDate(0, 0, -40)}
		for name, tt := range map[string]struct {
			left       times
			wall, want time.Time
		}{
			"a new file":                 {wall: wall, want: wall},
			"a new file, an unset clock": {wall: time.Unix(60, 0), want: firstSteady},
			"at once":                    {left, wall, left.steady},
			"an hour later":              {left, wall.Add(time.Hour), left.steady.Add(time.Hour)},
			"a year later":               {left, wall.AddDate(1, 0, 0), left.steady.Add(awayMost)},
			"a year before":              {left, wall.AddDate(-1, 0, 0), left.steady},
			"an unset clock":             {left, time.Unix(60, 0), left.steady},
			"a file of a clock that is unset": {times{wall: time.Unix(60, 0), steady: firstSteady}, wall,
				firstSteady.Add(awayMost)},
			"further than a duration goes": {left, wall.AddDate(1000, 0, 0), left.steady.Add(awayMost)},
			"as far back":                  {left, wall.AddDate(-1000, 0, 0), left.steady},
		} {
			s := tt.left.resume(tt.wall)
			if got := s.now(); !got.Equal(tt.want) {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
			time.Sleep(100 * 24 * time.Hour)
			if got := s.now(); !got.Equal(tt.want.AddDate(0, 0, 100)) {
				t.Errorf("%s: %v, 100 days after %v", name, got, tt.want)
			}
		}
	})
}
