package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// dated returns the keys that have changed since an offset, and the age of each change; -1 for an unknown time.
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

// TestChangeTimes checks that the commit times of kept changes are known to a minute, also after a restart.
func TestChangeTimes(t *testing.T) {
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
		retainChanges(t, c, 24*time.Hour)
		mustList(t, c, 5) // The first list of a collection has no dated changes.
		flush(t, s)
		after, from, err := viewPods(t, s, c).OffsetAt(t.Context(), time.Unix(0, 0), 0)
		if err != nil || after != 5 || !from.Equal(time.Now().Truncate(time.Second)) {
			t.Errorf("after the first list changes begin after %d, at %s: %v", after, from, err)
		}
		write(time.Hour, "20000", upsert("a/first", "20000"))
		write(20*time.Second, "20001", upsert("a/soon", "20001"))
		write(20*time.Second, "20002", remove("namespace-0/pod-0000", "20002"))
		write(10*time.Second, "20003", upsert("a/sooner", "20003"))
		write(10*time.Minute, "20004", upsert("a/later", "20004"))
		check := func(ago time.Duration, from time.Duration, want map[string]time.Duration) {
			t.Helper()
			v := viewPods(t, s, c)
			after, since, err := v.OffsetAt(t.Context(), time.Now().Add(-ago), 0)
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
		all := map[string]time.Duration{"a/first": begun, "a/soon": begun,
			"namespace-0/pod-0000": begun, "a/sooner": begun, "a/later": 0}
		everything := func() {
			t.Helper()
			check(0, 0, map[string]time.Duration{"a/later": 0})
			check(5*time.Minute, 5*time.Minute, map[string]time.Duration{"a/later": 0})
			// Commit times are kept by minute, so changes of the previous minute are included.
			check(begun-50*time.Second, begun-50*time.Second, all)
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

		// Changes that were written while RetainChanges was off have no time.
		f := cursorOf(t, c, "handler")
		catchUp(t, f)
		retainChanges(t, c, 0)
		write(time.Minute, "20007", upsert("a/unread", "20007"))
		retainChanges(t, c, 24*time.Hour)
		write(time.Minute, "20008", upsert("a/last", "20008"))
		keys, ages := dated(t, viewPods(t, s, c), 10)
		if len(keys) != 2 || ages[0] != -1 || ages[1] != 0 {
			t.Errorf("%v are %v old", keys, ages)
		}

		write(48*time.Hour, "20009", upsert("a/anew", "20009"))
		write(time.Hour, "20010", upsert("a/newest", "20010"))
		_, since, err := viewPods(t, s, c).OffsetAt(t.Context(), time.Now().Add(-72*time.Hour), 0)
		if want := 49 * time.Hour; err != nil || time.Since(since).Truncate(time.Second) != want {
			t.Errorf("changes have times for %s, want %s: %v", time.Since(since), want, err)
		}
		sound(t, s)
	})
}

// TestChangeTimesAfterTrim checks OffsetAt after the tombstone limit has dropped deletes within the retention: OffsetAt
// then returns a later time, after which no delete is missing.
func TestChangeTimesAfterTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), byHand())
		c := openPods(t, s, nil)
		retainChanges(t, c, 24*time.Hour)
		mustList(t, c, 10)
		flush(t, s)
		write := func(rv string, ops ...entry.Op) {
			t.Helper()
			apply(t, c, rv, ops...)
			flush(t, s)
			time.Sleep(10 * time.Minute)
		}
		time.Sleep(time.Hour)
		write("20001", upsert("a/0", "20001"), upsert("a/1", "20001"), upsert("a/2", "20001"), upsert("a/stays", "20001"))
		store.SetTombstoneLimit(c, 2)
		for i, key := range []string{"a/0", "a/1", "a/2"} {
			write(fmt.Sprint(20002+i), remove(key, fmt.Sprint(20002+i)))
		}
		v := viewPods(t, s, c)
		after, from, err := v.OffsetAt(t.Context(), time.Now().Add(-55*time.Minute), 0)
		if err != nil {
			t.Fatal(err)
		}
		keys, _ := dated(t, v, after)
		if want := []string{"a/1", "a/2"}; !slices.Equal(keys, want) {
			t.Errorf("%v, want %v", keys, want)
		}
		// The dropped delete was written half an hour ago. Times are kept by minute, so no delete is missing 29 minutes ago.
		if got := time.Since(from).Truncate(time.Minute); got != 29*time.Minute {
			t.Errorf("none is missing since %s", got)
		}
		apply(t, c, "20010", upsert("a/newest", "20010"))
		flush(t, s)
		for n, want := range map[int][]string{
			1: {"a/newest"}, 2: {"a/2", "a/newest"}, 100: {"a/1", "a/2", "a/newest"},
		} {
			after, _, err := v.OffsetAt(t.Context(), time.Unix(0, 0), n)
			if err != nil {
				t.Fatal(err)
			}
			if keys, _ := dated(t, v, after); !slices.Equal(keys, want) {
				t.Errorf("the newest %d: %v, want %v", n, keys, want)
			}
		}
	})
}
