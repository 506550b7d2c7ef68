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

// spoil makes the record of key one whose checksum is wrong, and has a reader meet it.
func spoil(t *testing.T, c *store.Collection, key string) {
	t.Helper()
	if err := flipRecord(c, key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), key); !errors.Is(err, entry.ErrDamaged) {
		t.Fatalf("Get of a bad record: %v", err)
	}
}

// What was pending when a rebuild lost an object speaks of it neither in the file nor to readers.
func TestRebuildWithUncommittedChanges(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
	g := store.GateCommits(s)
	c := mustCollection(t, s, pods())
	mustList(t, c, 3)
	if err := applyPod(t, c, podAt(3, "2000")); err != nil {
		t.Fatal(err)
	}
	spoil(t, c, "namespace-1/pod-0001")
	refused := errors.New("from the test")
	g.Fail(func() error { return refused }) // the commit with which Rebuild ends
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
	if err := s.Rebuild(t.Context()); err != nil { // its commit was refused with an error of the disk
		t.Fatal(err)
	}
	check("in the file")
	wantSound(t, s)
	mustClose(t, s)
}

// A commit that was about to begin when a rebuild did writes what is true after it.
func TestRebuildBeforeACommitThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
		c := mustCollection(t, s, pods())
		mustList(t, c, 3)
		if err := applyPod(t, c, podAt(3, "2000")); err != nil {
			t.Fatal(err)
		}
		spoil(t, c, "namespace-1/pod-0001")
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
