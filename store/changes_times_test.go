package store_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// dated returns the keys that have changed since an offset, and the age of each change; -1 if that is not known.
func dated(t *testing.T, v *store.View, after uint64) (keys []string, ages []time.Duration) {
	t.Helper()
	for {
		p, err := v.ChangedKeys(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Changes {
			if c.Object != nil {
				t.Errorf("%s has been decoded", c.Key)
			}
			age := time.Duration(-1)
			if !c.Time.IsZero() {
				age = time.Since(c.Time).Truncate(time.Second)
			}
			keys, ages = append(keys, c.Key), append(ages, age)
		}
		if after = p.End; !p.More {
			return keys, ages
		}
	}
}

// Changes that are kept for readers are dated to a minute, also after a restart and in a copy of the file; and what has changed since a time is found.
func TestTimesOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		s := storetest.OpenFile(t, path, byHand())
		c := openPods(t, s, nil)
		write := func(after time.Duration, rv string, ops ...entry.Op) {
			t.Helper()
			time.Sleep(after)
			apply(t, c, rv, ops...)
			flush(t, s)
		}
		write(0, "1", upsert("a/before", "1"))
		retainChanges(t, c, 24*time.Hour)
		write(time.Hour, "2", upsert("a/first", "2"))
		write(20*time.Second, "3", upsert("a/soon", "3"))
		write(20*time.Second, "4", remove("a/before", "4"))
		write(10*time.Second, "5", upsert("a/sooner", "5"))
		write(10*time.Minute, "6", upsert("a/later", "6"))
		check := func(ago time.Duration, from time.Duration, want map[string]time.Duration) {
			t.Helper()
			v := viewPods(t, s, c)
			after, since, err := v.OffsetAt(t.Context(), time.Now().Add(-ago))
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Since(since).Truncate(time.Second); got != from {
				t.Errorf("since %s: changes are those of the last %s, want %s", ago, got, from)
			}
			keys, ages := dated(t, v, after)
			if len(keys) != len(want) {
				t.Errorf("since %s: %v, want %v", ago, keys, want)
			}
			for i, key := range keys {
				if age, ok := want[key]; !ok || ages[i] != age {
					t.Errorf("since %s: %s is %s old, want %s", ago, key, ages[i], want[key])
				}
			}
		}
		const begun = 10*time.Minute + 50*time.Second
		all := map[string]time.Duration{"a/first": begun, "a/soon": begun, "a/before": begun, "a/sooner": begun, "a/later": 0}
		everything := func() {
			t.Helper()
			check(0, 0, map[string]time.Duration{"a/later": 0})
			check(5*time.Minute, 5*time.Minute, all) // the minute of the mark before, too
			check(2*time.Hour, begun, all)
		}
		everything()
		sound(t, s)
		if _, err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		everything()
		closeStore(t, s)
		s = storetest.OpenFile(t, path, byHand())
		c = openPods(t, s, nil)
		everything()

		// What was written while nobody was to read it has no time.
		f := feedOf(t, c, "handler")
		catchUp(t, f)
		retainChanges(t, c, 0)
		write(time.Minute, "7", upsert("a/unread", "7"))
		retainChanges(t, c, 24*time.Hour)
		write(time.Minute, "8", upsert("a/last", "8"))
		keys, ages := dated(t, viewPods(t, s, c), 6)
		if len(keys) != 2 || ages[0] != -1 || ages[1] != 0 {
			t.Errorf("%v are %v old", keys, ages)
		}

		// Times are forgotten with what is kept.
		write(48*time.Hour, "9", upsert("a/anew", "9"))
		write(time.Hour, "10", upsert("a/newest", "10"))
		_, since, err := viewPods(t, s, c).OffsetAt(t.Context(), time.Now().Add(-72*time.Hour))
		if want := 49 * time.Hour; err != nil || time.Since(since).Truncate(time.Second) != want {
			t.Errorf("changes have times for %s, want %s: %v", time.Since(since), want, err)
		}
		sound(t, s)
	})
}
