package changelog

import (
	"testing"
	"time"

	"github.com/larder-dev/larder/store/internal/format"
)

// What was written at a time or later is found by the minutes of its marks, whatever the wall clock has done, and what
// nobody has dated by the marks beside it.
func TestOffset(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(minute)*60, 0) }
	mark := func(seq uint64, minute int) timeMark {
		if minute < 0 {
			return timeMark{seq: seq}
		}
		return timeMark{seq, format.Mark{Steady: at(minute), Wall: at(minute)}}
	}
	const now, unknown = 1000, -1
	quiet := Times{mark(1, 600), mark(9, 700)}
	back := Times{mark(1, 600), mark(5, 660), mark(9, 605)}
	undated := Times{mark(1, unknown), mark(3, 600), mark(4, unknown), mark(9, 700), mark(12, unknown)}
	for _, tt := range []struct {
		name   string
		of     Times
		since  int
		oldest uint64
		after  uint64
		from   int
	}{
		{"nothing is dated", nil, 600, 0, 20, now},
		{"of before", quiet, 500, 0, 0, 600},
		{"in the minute of a mark", quiet, 600, 0, 0, 600},
		{"when it has passed", quiet, 601, 0, 8, 601},
		{"after the last", quiet, 701, 0, 20, 701},
		{"the clock went back", back, 630, 0, 4, 630},
		{"until it is there again", back, 661, 0, 20, 661},
		{"what nobody has dated", undated, 650, 0, 3, 650},
		{"before the next that somebody has", undated, 700, 0, 8, 700},
		{"and what is undated still", undated, 900, 0, 11, 900},
		{"the first of them are not told", undated, 100, 0, 2, 600},
		{"dropped", quiet, 600, 2, 2, 601},
		{"dropped before all marks", Times{mark(5, 600)}, 500, 3, 4, 600},
		{"dropped up to a mark", quiet, 600, 8, 8, 601},
		{"dropped behind what was asked for", quiet, 700, 8, 8, 700},
		{"dropped with what nobody has dated", undated, 600, 5, 5, 700},
		{"dropped with what is undated still", undated, 600, 15, 15, now},
	} {
		after, from := tt.of.Offset(at(tt.since), Span{Last: 20, Oldest: tt.oldest, Now: at(now)})
		if after != tt.after || !from.Equal(at(tt.from)) {
			t.Errorf("%s: after %d from minute %d, want %d from %d", tt.name, after, from.Unix()/60, tt.after, tt.from)
		}
	}
}
