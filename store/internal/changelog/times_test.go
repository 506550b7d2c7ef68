package changelog

import (
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// TestOffset checks that Offset finds the changes since a time, even if the wall clock was set back. The neighboring
// marks limit the time of changes without a mark.
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

// TestUndatedChanges checks that changes of a program that stores no times stay undated, and that Offset includes them.
func TestUndatedChanges(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "times"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	hour := func(n int) time.Time { return time.Unix(int64(n)*3600, 0) }
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(format.BucketTimes)
		if err != nil {
			return err
		}
		put := func(seq uint64, at time.Time) {
			if err := b.Put(format.SeqKey(seq), format.Mark{Steady: at, Wall: at}.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		put(20, hour(10))
		log := &Log{times: b, next: 31, marked: 25}
		for seq, want := range map[uint64]bool{19: false, 20: true, 24: true, 25: false, 30: false} {
			if dated := !log.At(seq).IsZero(); dated != want {
				t.Errorf("%d is dated: %v", seq, dated)
			}
		}
		log.marked = 0 // older programs do not store this number, so it is 0
		if !log.At(21).IsZero() || log.At(20).IsZero() {
			t.Error("what came after the mark is dated, or the mark itself is not")
		}
		times, err := log.Times()
		if after, _ := times.Offset(hour(15), Span{Last: 30, Now: hour(16)}); err != nil || after != 20 {
			t.Errorf("what has no time is told behind %d, want 20: %v", after, err)
		}
		log.marked = 31
		if log.At(30).IsZero() {
			t.Error("all is dated")
		}

		put(25, time.Time{})
		put(50, hour(40))
		w := &Writer{state: &State{Retain: 24 * time.Hour}}
		if err := w.forgetTimes(b, hour(50)); err != nil {
			return err
		}
		log.next, log.marked = 61, 61
		if times, err = log.Times(); err != nil {
			return err
		}
		if after, _ := times.Offset(hour(30), Span{Last: 60, Now: hour(50)}); after != 24 {
			t.Errorf("what was written between hours 10 and 40 is told behind %d, want 24", after)
		}
		if err := w.forgetTimes(b, hour(80)); err != nil {
			return err
		}
		if times, err = log.Times(); len(times) != 1 {
			t.Errorf("%d marks are left when all are too old, and the last one dates what follows: %v", len(times), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
