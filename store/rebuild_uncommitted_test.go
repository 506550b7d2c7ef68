package store_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// damageRecord damages the record of key and reads it, so that the store notices the damage.
func damageRecord(t *testing.T, c *store.Collection, key string) {
	t.Helper()
	if err := flipRecord(c, key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), key); !errors.Is(err, entry.ErrDamaged) {
		t.Fatalf("Get of a bad record: %v", err)
	}
}

// TestRebuildWithUncommittedChanges checks a rebuild that loses an object while the collection's Info is uncommitted:
// Info.Newest and the number of objects must not include that object.
func TestRebuildWithUncommittedChanges(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
	g := store.GateCommits(s)
	c := mustCollection(t, s, pods())
	mustList(t, c, 3)
	if err := applyPod(t, c, podAt(3, "2000")); err != nil {
		t.Fatal(err)
	}
	damageRecord(t, c, "namespace-1/pod-0001")
	refused := errors.New("from the test")
	g.Fail(func() error { return refused }) // makes the commit at the end of Rebuild fail
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"namespace-3/pod-0003", "namespace-2/pod-0002", "namespace-0/pod-0000"}
	check := func(when string) {
		n, info := count(t, c)
		var newest []string
		for _, ref := range info.Newest {
			newest = append(newest, ref.Key)
		}
		if n != 3 || info.Objects != 3 || !slices.Equal(newest, want) || info.ResourceVersion != "2000" ||
			info.MustRelist != store.MustRelistDamaged {
			t.Errorf("%s: %d objects, %+v", when, n, info)
		}
	}
	check("while it is pending")
	g.Fail(nil)
	if err := s.Rebuild(t.Context()); err != nil { // the failed commit has made the store refuse writes
		t.Fatal(err)
	}
	check("in the file")
	wantSound(t, s)
	mustClose(t, s)
}

// TestRebuildBeforeACommitThatWaits checks that a commit queued behind a rebuild writes the rebuilt Info.
func TestRebuildBeforeACommitThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
		c := mustCollection(t, s, pods())
		mustList(t, c, 3)
		if err := applyPod(t, c, podAt(3, "2000")); err != nil {
			t.Fatal(err)
		}
		damageRecord(t, c, "namespace-1/pod-0001")
		release, err := store.TakeWriter(s)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		go func() { done <- s.Rebuild(t.Context()) }()
		synctest.Wait()
		go func() { done <- s.Flush(t.Context()) }()
		synctest.Wait()
		release()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		wantSound(t, s)
		if n, info := count(t, c); n != 3 || info.Objects != 3 || s.Pending() != 0 {
			t.Errorf("%d objects, %+v, %d bytes pending", n, info, s.Pending())
		}
		mustClose(t, s)
	})
}
