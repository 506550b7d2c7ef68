package store_test

import (
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// inFile returns the namespaces of the collections in the file, sorted.
func inFile(t *testing.T, s *store.Store) (namespaces []string) {
	t.Helper()
	infos, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		namespaces = append(namespaces, info.Identity.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func mustOpenPods(t *testing.T, s *store.Store, namespace string) *store.Collection {
	t.Helper()
	id := pods()
	id.Namespace = namespace
	return mustCollection(t, s, id)
}

func mustEnd(t *testing.T, c *store.Collection) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// forMonths are options of a store that stays open for months of fake time.
func forMonths(o store.Options) store.Options {
	if o.Hooks == nil {
		o.Hooks = &hook.Hooks{}
	}
	o.Hooks.IdentityInterval = 24 * time.Hour
	return o
}

// TestForget: what nobody opens is dropped after 30 days, and not because the
// program was away for that long, nor because its clock was wrong.
func TestForget(t *testing.T) {
	const day = 24 * time.Hour
	tests := map[string]struct {
		options store.Options
		run     func(t *testing.T, s *store.Store) *store.Store
		want    []string
	}{
		"open all the time": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustOpenPods(t, s, "a")
			mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			return s
		}, want: []string{"a", "b"}},
		"closed for 29 days": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustOpenPods(t, s, "a")
			b := mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			mustEnd(t, b)
			time.Sleep(29 * day)
			return s
		}, want: []string{"a", "b"}},
		"closed for 32 days": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustOpenPods(t, s, "a")
			b := mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			mustEnd(t, b)
			time.Sleep(32 * day)
			return s
		}, want: []string{"a"}},
		"opened for a moment each day": {run: func(t *testing.T, s *store.Store) *store.Store {
			for range 40 { // longer than it is kept
				mustEnd(t, mustOpenPods(t, s, "a"))
				mustClose(t, s)
				time.Sleep(day)
				s = mustOpen(t, s.Path(), forMonths(store.Options{}))
			}
			time.Sleep(day)
			return s
		}, want: []string{"a"}},
		"the program away for 100 days": {run: func(t *testing.T, s *store.Store) *store.Store {
			for _, namespace := range []string{"a", "b", "c"} {
				mustOpenPods(t, s, namespace)
			}
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), forMonths(store.Options{}))
			mustOpenPods(t, s, "a")
			time.Sleep(59 * time.Minute)
			mustOpenPods(t, s, "b")
			time.Sleep(day)
			return s
		}, want: []string{"a", "b", "c"}},
		"the program away for 100 days, and there for 32": {run: func(t *testing.T, s *store.Store) *store.Store {
			for _, namespace := range []string{"a", "b"} {
				mustOpenPods(t, s, namespace)
			}
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), forMonths(store.Options{}))
			mustOpenPods(t, s, "a")
			time.Sleep(32 * day)
			return s
		}, want: []string{"a"}},
		"opened for a moment after 100 days": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustOpenPods(t, s, "a")
			mustOpenPods(t, s, "b")
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), forMonths(store.Options{}))
			mustEnd(t, mustOpenPods(t, s, "a"))
			time.Sleep(31 * day)
			return s
		}, want: []string{"a"}},
		"never": {options: store.Options{ForgetAfter: -1}, run: func(t *testing.T, s *store.Store) *store.Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			time.Sleep(1000 * day)
			return s
		}, want: []string{"a"}},
		"the longest time there is": {options: store.Options{ForgetAfter: math.MaxInt64},
			run: func(t *testing.T, s *store.Store) *store.Store {
				mustEnd(t, mustOpenPods(t, s, "a"))
				time.Sleep(1000 * day)
				return s
			}, want: []string{"a"}},
		"by a build that did not note it": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			setLastUsed(t, s, time.Time{})
			time.Sleep(29 * day)
			return s
		}, want: []string{"a"}},
		"and then dropped too": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			setLastUsed(t, s, time.Time{})
			time.Sleep(33 * day)
			return s
		}},
		"with a clock that was ahead": {run: func(t *testing.T, s *store.Store) *store.Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			setLastUsed(t, s, time.Now().Add(1000*day))
			mustEnd(t, mustOpenPods(t, s, "a")) // notes the true time
			time.Sleep(32 * day)
			return s
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.run(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), forMonths(tt.options)))
				synctest.Wait()
				if got := inFile(t, s); !slices.Equal(got, tt.want) {
					t.Errorf("in the file: %q, want %q", got, tt.want)
				}
				mustClose(t, s)
			})
		})
	}
}

// TestForgetOnAFullDisk: a collection opens all the same.
func TestForgetOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g := gated(store.Options{})
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), forMonths(o))
		mustEnd(t, mustOpenPods(t, s, "a"))
		time.Sleep(10 * 24 * time.Hour)
		g.Fail(func() error { return syscall.ENOSPC })
		c := mustOpenPods(t, s, "a")
		time.Sleep(10 * 24 * time.Hour)
		g.Fail(nil)
		if err := s.Err(); err != nil {
			t.Errorf("the store: %v", err)
		}
		mustEnd(t, c)
		mustClose(t, s)
	})
}

// setLastUsed changes when the file says that its collections were last used; zero: by a build that did not note it.
func setLastUsed(t testing.TB, s *store.Store, at time.Time) {
	t.Helper()
	err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error {
		return disk.EachCollection(tx, func(id string, b *bolt.Bucket) error {
			return disk.EditInfo(b, id, func(info map[string]any) {
				if at.IsZero() {
					delete(info, "lastUsed")
					delete(info, "usedAt")
					return
				}
				info["lastUsed"] = at.UnixNano()
				info["usedAt"] = info["usedAt"].(int64) + int64(time.Until(at)/time.Second) // by the store's steady time
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
