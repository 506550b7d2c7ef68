package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

const day = 24 * time.Hour

type jumper struct {
	path  string
	ahead atomic.Int64 // difference of the fake wall clock to the true time, in nanoseconds
	s     *store.Store
	c     *store.Collection
	rv    int
}

func (j *jumper) open(t *testing.T) {
	t.Helper()
	o := byHand()
	// With the default IdentityInterval of ten seconds, simulated months take minutes of CPU time.
	o.Hooks = &hook.Hooks{IdentityInterval: day,
		Wall: func() time.Time { return time.Now().Add(time.Duration(j.ahead.Load())) }}
	j.s = storetest.OpenFile(t, j.path, o)
	j.c = openPodsIn(t, j.s, "used")
}

func (j *jumper) close(t *testing.T) {
	t.Helper()
	if err := j.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// write commits an op. Each commit also drops tombstones that are too old.
func (j *jumper) write(t *testing.T, op entry.Op) {
	t.Helper()
	j.rv++
	apply(t, j.c, fmt.Sprint(100+j.rv), op)
	flush(t, j.s)
}

// TestClockJumps checks that no durable handler misses a delete, however the wall clock jumps. The age of a tombstone
// includes the time that the store was open, which is measured independently of the wall clock.
func TestClockJumps(t *testing.T) {
	const year = 365 * day
	for name, jumps := range map[string][]time.Duration{
		"a year ahead":            {year, year, year},
		"a year back":             {-year, -year, -year},
		"there and back":          {year, 0, year, 0},
		"back and there":          {-year, 0, -year, 0},
		"unset at each start":     {-30 * year, -30 * year, -30 * year},
		"unset where it was made": {0, 30 * year, 0, 30 * year},
		"further and further":     {year, 3 * year, 10 * year, 50 * year},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &jumper{path: filepath.Join(t.TempDir(), "larder.db")}
				j.open(t)
				f := cursorOf(t, j.c, "h")
				j.write(t, upsert("used/x", "1"))
				j.write(t, upsert("used/y", "2"))
				catchUp(t, f)
				j.write(t, remove("used/x", "3"))
				for n, ahead := range jumps {
					j.close(t)
					j.ahead.Store(int64(ahead))
					j.open(t)
					f = cursorOf(t, j.c, "h")
					j.write(t, upsert("used/y", fmt.Sprint(10+n)))
					time.Sleep(2 * time.Hour)
					j.ahead.Store(int64(-ahead))
					time.Sleep(2 * time.Hour)
					j.write(t, upsert("used/z", fmt.Sprint(20+n)))
				}
				got := catchUp(t, f)
				if len(got) != 3 || got[0] != "- used/x uid=uid-used/x rv=3" {
					t.Errorf("the handler was told %q, want the delete first", got)
				}

				j.write(t, remove("used/y", "50"))
				time.Sleep(33 * day)
				synctest.Wait()
				j.write(t, upsert("used/z", "60"))
				if position, _, err := f.Position(); err != nil || !position.Replaying {
					t.Errorf("a handler that did not hear of a delete for 33 days is at %+v, %v", position, err)
				}
				j.close(t)
			})
		})
	}
}

// TestClockAfterAKill checks that the age of tombstones includes the running time of processes that were killed.
func TestClockAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &jumper{path: filepath.Join(t.TempDir(), "larder.db")}
		j.open(t)
		f := cursorOf(t, j.c, "h")
		j.write(t, upsert("used/x", "1"))
		catchUp(t, f)
		j.write(t, remove("used/x", "2"))
		time.Sleep(5 * day)
		j.write(t, upsert("used/y", "3"))
		killed := j.path + "-killed"
		mustCopy(t, j.path, killed)
		j.close(t)
		j.path = killed
		j.open(t)
		f = cursorOf(t, j.c, "h")
		if position, _, err := f.Position(); err != nil || position.Replaying {
			t.Errorf("after five days the handler is at %+v, %v", position, err)
		}
		time.Sleep(4 * day)
		j.write(t, upsert("used/y", "4"))
		if position, _, err := f.Position(); err != nil || !position.Replaying {
			t.Errorf("a handler that has not received a delete for nine days is at %+v, %v", position, err)
		}
		j.close(t)
	})
}

// TestScrubbedIsMonotonic checks that a changed wall clock does not change the age of the last Scrub.
func TestScrubbedIsMonotonic(t *testing.T) {
	s := storetest.OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), store.Options{})
	if at := s.Scrubbed(); !at.IsZero() {
		t.Errorf("before: %v", at)
	}
	sound(t, s)
	if at := s.Scrubbed(); !strings.Contains(at.String(), " m=") {
		t.Errorf("%v has no monotonic clock", at)
	}
}
