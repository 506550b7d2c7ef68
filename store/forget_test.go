package store

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// inFile returns the namespaces of the collections in the file, sorted.
func inFile(t *testing.T, s *Store) (namespaces []string) {
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

func mustOpenPods(t *testing.T, s *Store, namespace string) *Collection {
	t.Helper()
	id := pods()
	id.Namespace = namespace
	return mustCollection(t, s, id)
}

func mustEnd(t *testing.T, c *Collection) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForget: what nobody opens is dropped after 30 days, and not because the
// program was away for that long, nor because its clock was wrong.
func TestForget(t *testing.T) {
	const day = 24 * time.Hour
	tests := map[string]struct {
		options Options
		run     func(t *testing.T, s *Store) *Store
		want    []string
	}{
		"open all the time": {run: func(t *testing.T, s *Store) *Store {
			mustOpenPods(t, s, "a")
			mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			return s
		}, want: []string{"a", "b"}},
		"closed for 29 days": {run: func(t *testing.T, s *Store) *Store {
			mustOpenPods(t, s, "a")
			b := mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			mustEnd(t, b)
			time.Sleep(29 * day)
			return s
		}, want: []string{"a", "b"}},
		"closed for 32 days": {run: func(t *testing.T, s *Store) *Store {
			mustOpenPods(t, s, "a")
			b := mustOpenPods(t, s, "b")
			time.Sleep(100 * day)
			mustEnd(t, b)
			time.Sleep(32 * day)
			return s
		}, want: []string{"a"}},
		"opened for a moment each day": {run: func(t *testing.T, s *Store) *Store {
			for range 40 { // longer than it is kept
				mustEnd(t, mustOpenPods(t, s, "a"))
				mustClose(t, s)
				time.Sleep(day)
				s = mustOpen(t, s.Path(), Options{})
			}
			time.Sleep(day)
			return s
		}, want: []string{"a"}},
		"the program away for 100 days": {run: func(t *testing.T, s *Store) *Store {
			for _, namespace := range []string{"a", "b", "c"} {
				mustOpenPods(t, s, namespace)
			}
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), Options{})
			mustOpenPods(t, s, "a")
			time.Sleep(59 * time.Minute)
			mustOpenPods(t, s, "b")
			time.Sleep(day)
			return s
		}, want: []string{"a", "b", "c"}},
		"the program away for 100 days, and there for 32": {run: func(t *testing.T, s *Store) *Store {
			for _, namespace := range []string{"a", "b"} {
				mustOpenPods(t, s, namespace)
			}
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), Options{})
			mustOpenPods(t, s, "a")
			time.Sleep(32 * day)
			return s
		}, want: []string{"a"}},
		"opened for a moment after 100 days": {run: func(t *testing.T, s *Store) *Store {
			mustOpenPods(t, s, "a")
			mustOpenPods(t, s, "b")
			mustClose(t, s)
			time.Sleep(100 * day)
			s = mustOpen(t, s.Path(), Options{})
			mustEnd(t, mustOpenPods(t, s, "a"))
			time.Sleep(31 * day)
			return s
		}, want: []string{"a"}},
		"never": {options: Options{ForgetAfter: -1}, run: func(t *testing.T, s *Store) *Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			time.Sleep(1000 * day)
			return s
		}, want: []string{"a"}},
		"the longest time there is": {options: Options{ForgetAfter: math.MaxInt64}, run: func(t *testing.T, s *Store) *Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			time.Sleep(1000 * day)
			return s
		}, want: []string{"a"}},
		"by a build that did not note it": {run: func(t *testing.T, s *Store) *Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			setLastUsed(t, s, time.Time{})
			time.Sleep(29 * day)
			return s
		}, want: []string{"a"}},
		"and then dropped too": {run: func(t *testing.T, s *Store) *Store {
			mustEnd(t, mustOpenPods(t, s, "a"))
			setLastUsed(t, s, time.Time{})
			time.Sleep(33 * day)
			return s
		}},
		"with a clock that was ahead": {run: func(t *testing.T, s *Store) *Store {
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
				s := tt.run(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), tt.options))
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
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
		mustEnd(t, mustOpenPods(t, s, "a"))
		time.Sleep(10 * 24 * time.Hour)
		setCommit := func(fn func(tx *bolt.Tx) error) {
			s.writer <- struct{}{} // what runs in the background takes it before it looks
			s.hooks.commit = fn
			<-s.writer
		}
		setCommit(func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) })
		c := mustOpenPods(t, s, "a")
		time.Sleep(10 * 24 * time.Hour)
		setCommit(nil)
		if err := s.Err(); err != nil {
			t.Errorf("the store: %v", err)
		}
		mustEnd(t, c)
		mustClose(t, s)
	})
}

func setLastUsed(t testing.TB, s *Store, at time.Time) {
	t.Helper()
	err := s.update(t.Context(), func(tx *bolt.Tx) error {
		root := tx.Bucket(bucketLarder)
		return root.ForEachBucket(func(name []byte) error {
			st, err := getState(root.Bucket(name), string(name))
			if err != nil {
				return err
			}
			st.LastUsed, st.usedAt = at, at
			if !at.IsZero() {
				st.usedAt = s.steadyNow().Add(time.Until(at))
			}
			return putState(root.Bucket(name), string(name), st)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
