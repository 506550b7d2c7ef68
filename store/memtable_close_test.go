package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func full() error { return syscall.ENOSPC }

// TestCloseThatLosesChanges checks a closed collection that could not commit its changes: the file's resourceVersion
// must not advance past the lost changes.
func TestCloseThatLosesChanges(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "1")
	apply(t, c, "2", upsert("a/x", "2"))
	g.Fail(full)
	if err := c.Close(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Close: %v", err)
	}
	if err := s.CommitErr(); err != nil || s.Pending() != 0 {
		t.Errorf("nothing is pending, but there are %d bytes, and %v", s.Pending(), err)
	}
	g.Fail(nil)
	if _, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{upsert("a/y", "3")}, ResourceVersion: "3"}); err == nil {
		t.Error("Apply after changes were lost: no error")
	}
	again := openPods(t, s, nil)
	if info := infoOf(t, again); info.ResourceVersion != "1" || info.Objects != 0 {
		t.Errorf("the file stands at %+v", info)
	}
	apply(t, again, "3", upsert("a/x", "2"), upsert("a/y", "3"))
}

// TestApplyToAClosedCollection checks that Apply fails once Close of the collection has begun its commit.
func TestApplyToAClosedCollection(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	apply(t, c, "2", upsert("a/x", "2", storetest.ColorLabel, "red"))
	entered, release := g.Hold()
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	<-entered
	late := entry.Batch{Ops: []entry.Op{upsert("a/x", "3", storetest.ColorLabel, "blue")}, ResourceVersion: "3"}
	if _, err := c.Apply(t.Context(), late); !errors.Is(err, store.ErrClosed) {
		t.Errorf("while it is closed: %v", err)
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := c.Apply(t.Context(), late); !errors.Is(err, store.ErrClosed) || s.Pending() != 0 {
		t.Errorf("once it is closed: %v, %d bytes are pending", err, s.Pending())
	}
	again := openPods(t, s, byNamespaceAndColor)
	wantStrings(t, "what is stored", list(t, again), "a/x uid=uid-a/x rv=2 color=red")
	if info := infoOf(t, again); info.ResourceVersion != "2" || info.Objects != 1 {
		t.Errorf("info %+v", info)
	}
}

// TestCollectionsCommitTogether checks that Close of one collection commits the changes of another, too. If the commit
// fails, Close drops only the changes of its own collection.
func TestCollectionsCommitTogether(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	other, err := s.Collection(ctx, entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource,
		Namespace: "a"},
		store.CollectionOptions{Codec: storetest.PodCodec()})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, "1", upsert("a/x", "1"))
	apply(t, other, "7", upsert("a/x", "7"))
	before := g.Attempts()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if n := g.Attempts() - before; n != 1 || s.Pending() != 0 {
		t.Errorf("%d commits, %d bytes pending", n, s.Pending())
	}
	apply(t, c, "2", upsert("a/x", "2"))
	if other, err = s.Collection(ctx, other.Identity(), store.CollectionOptions{Codec: storetest.PodCodec()}); err != nil {
		t.Fatal(err)
	}
	apply(t, other, "8", upsert("a/x", "8"))
	g.Fail(full)
	if err := other.Close(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Close: %v", err)
	}
	if s.CommitErr() == nil || s.Pending() == 0 {
		t.Error("the other collection's changes are gone too")
	}
	if err := s.Drop(ctx, other.Identity()); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Drop: %v", err)
	}
	g.Fail(nil)
	if err := s.Drop(ctx, other.Identity()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenFile(t, path, byHand())
	c = openPods(t, s, nil)
	wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=2")
	if infos, err := s.Collections(ctx); err != nil || len(infos) != 1 {
		t.Errorf("%d collections, %v", len(infos), err)
	}
}

// TestApplyDuringStoreClose checks that no change that Apply has accepted is lost without an error.
func TestApplyDuringStoreClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	apply(t, c, "1", upsert("a/x", "1"))
	entered, release := g.Hold()
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-entered
	if _, err := c.Apply(context.Background(),
		entry.Batch{Ops: []entry.Op{upsert("a/x", "2")}, ResourceVersion: "2"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Apply while the store is being closed: %v", err)
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	s = storetest.OpenFile(t, path, byHand())
	wantStrings(t, "what is stored", list(t, openPods(t, s, nil)), "a/x uid=uid-a/x rv=1")
}

func TestCloseReportsLostChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, byHand())
	if err != nil {
		t.Fatal(err)
	}
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/x", "1"))
	apply(t, c, "2", upsert("a/x", "2"))
	g.Fail(full)
	if err := s.Close(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Close: %v", err)
	}
	g.Fail(nil)
	if _, err := c.Apply(context.Background(), entry.Batch{Ops: []entry.Op{upsert("a/x", "3")}}); !errors.Is(err,
		store.ErrClosed) {
		t.Errorf("Apply to a closed store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := c.Close(); err == nil {
		t.Error("Close of the collection: no error")
	}
	s = storetest.OpenFile(t, path, byHand())
	c = openPods(t, s, nil)
	wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=1")
	if info := infoOf(t, c); info.ResourceVersion != "1" {
		t.Errorf("info %+v", info)
	}
}

func TestCloseDuringBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), byHand())
		if err != nil {
			t.Fatal(err)
		}
		store.SetDirtyLimit(s, 1)
		c := openPods(t, s, nil)
		// The writer lock is taken before Apply, because at this limit each Apply starts a commit at once.
		release, err := store.TakeWriter(s)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, "1", upsert("a/x", "1"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		waited, closed := make(chan error, 2), make(chan error, 1)
		go func() { waited <- c.Backpressure(ctx) }()
		go func() {
			_, err := c.Apply(ctx, entry.Batch{ResourceVersion: "2"})
			waited <- err
		}()
		synctest.Wait()
		go func() { closed <- s.Close() }()
		for range 2 {
			if err := <-waited; !errors.Is(err, store.ErrClosed) {
				t.Error(err)
			}
		}
		release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := c.Backpressure(ctx); err != nil {
			t.Errorf("nothing is pending: %v", err)
		}
	})
}
