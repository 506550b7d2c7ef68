package boltfile

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSteadyTime checks that the steady clock never goes back, and counts at most a day while the file is closed.
func TestSteadyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Date(2027, time.May, 1, 0, 0, 0, 0, time.UTC)
		left := Times{Wall: wall, Steady: wall.AddDate(0, 0, -40)}
		for name, tt := range map[string]struct {
			left       Times
			wall, want time.Time
		}{
			"a new file":                 {wall: wall, want: wall},
			"a new file, an unset clock": {wall: time.Unix(60, 0), want: firstSteady},
			"at once":                    {left, wall, left.Steady},
			"an hour later":              {left, wall.Add(time.Hour), left.Steady.Add(time.Hour)},
			"a year later":               {left, wall.AddDate(1, 0, 0), left.Steady.Add(awayMost)},
			"a year before":              {left, wall.AddDate(-1, 0, 0), left.Steady},
			"an unset clock":             {left, time.Unix(60, 0), left.Steady},
			"a file of a clock that is unset": {Times{Wall: time.Unix(60, 0), Steady: firstSteady}, wall,
				firstSteady.Add(awayMost)},
			"further than a duration goes": {left, wall.AddDate(1000, 0, 0), left.Steady.Add(awayMost)},
			"as far back":                  {left, wall.AddDate(-1000, 0, 0), left.Steady},
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
