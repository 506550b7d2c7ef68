package store_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// leaveHeard leaves a collection at resourceVersion 30, where it got a/late, and a durable handler that has heard of all of it. It returns the store open.
func leaveHeard(t *testing.T, path string) *store.Store {
	t.Helper()
	old := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
	c := openPods(t, old, nil)
	relist(t, c, store.ReplaceOptions{}, "10", oldPods...)
	f := feedOf(t, c, "h")
	apply(t, c, "30", upsert("a/late", "30"))
	catchUp(t, f)
	return old
}

// TestAttachTellsOfNoFalseDelete: where the older process was ahead when it gave the file up, a durable handler is not told that what memory has yet to hear of is gone: that is waited for, and
// if it does not come the handler begins anew.
func TestAttachTellsOfNoFalseDelete(t *testing.T) {
	for name, test := range map[string]struct {
		interval time.Duration
		run      func(t *testing.T, s *store.Store, c *store.Collection)
		anew     bool
	}{
		"Pending": {interval: time.Hour, run: func(t *testing.T, s *store.Store, c *store.Collection) {
			apply(t, c, "30", upsert("a/late", "30"))
			awaitAttached(t, s)
		}},
		"Later": {run: func(t *testing.T, s *store.Store, c *store.Collection) {
			time.Sleep(30 * time.Second)
			if err := s.Detached(); err == nil || !strings.Contains(err.Error(), "newer") {
				t.Fatalf("detached: %v", err)
			}
			apply(t, c, "30", upsert("a/late", "30"))
			awaitAttached(t, s)
		}},
		"Never": {run: func(t *testing.T, s *store.Store, c *store.Collection) {
			time.Sleep(6 * time.Minute)
			if !attached(s) {
				t.Fatalf("a server that was set back keeps the store from its file: %v", s.Detached())
			}
		}, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				old := leaveHeard(t, path)
				s := openDetached(t, path, store.Options{CommitInterval: test.interval})
				c := openPods(t, s, nil)
				relist(t, c, store.ReplaceOptions{}, "20", oldPods...)
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				test.run(t, s, c)
				wantHeard(t, s, c, test.anew)
			})
		})
	}
}

// TestAttachAmidAFirstListBeginsAnew: a first list that does not end has a part of the objects only; durable handlers are not told that the others are gone.
func TestAttachAmidAFirstListBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := leaveHeard(t, path)
		s := openDetached(t, path, store.Options{})
		c := openPods(t, s, nil)
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err == nil {
			_, err = r.Page(t.Context(), pods(oldPods[0]))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		if !attached(s) {
			t.Fatalf("still in memory: %v", s.Detached())
		}
		wantHeard(t, s, c, true)
		r.Abort()
	})
}

// wantHeard checks that the handler is told of no delete, and whether it begins anew.
func wantHeard(t *testing.T, s *store.Store, c *store.Collection, anew bool) {
	t.Helper()
	f := feedOf(t, c, "h")
	place, _, err := f.Place()
	if err != nil || place.Replaying != anew || anew && place.Why != store.ResetBehind {
		t.Errorf("place %+v, %v", place, err)
	}
	got := catchUp(t, f)
	if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "-") }) {
		t.Errorf("told %q", got)
	}
	storetest.Check(t, s)
}
