package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestReplaceWithUncommittedChanges checks that a list is compared with uncommitted changes, too.
func TestReplaceWithUncommittedChanges(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/x", "1", storetest.ColorLabel, "red"))
	apply(t, c, "3", upsert("a/x", "2", storetest.ColorLabel, "blue"), upsert("a/y", "3"))
	finish := hang(t, s, g)
	apply(t, c, "4", upsert("a/z", "4"))
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(ctx, entry.Batch{ResourceVersion: "5"}); !errors.Is(err, store.ErrReplacing) {
		t.Errorf("Apply during a list: %v", err)
	}
	if _, err := r.Page(ctx, podsOf(upsert("a/x", "2", storetest.ColorLabel, "blue"), upsert("a/z", "5"))); err != nil {
		t.Fatal(err)
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	g.Fail(full)
	res, err := r.Commit(ctx, entry.Batch{ResourceVersion: "6"})
	if err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "changes", describe(res.Changes),
		"Deleted a/y from {a/y uid=uid-a/y rv=3}", "Updated a/z from {a/z uid=uid-a/z rv=4} to {a/z uid=uid-a/z rv=5}")
	wantObjects(t, c, "6", "a/x uid=uid-a/x rv=2 color=blue", "a/z uid=uid-a/z rv=5")
	if err := s.Flush(ctx); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("a list that is not in the file: %v", err)
	}
	g.Fail(nil)
	apply(t, c, "7", remove("a/x", "7"))
	flush(t, s)
	wantObjects(t, c, "7", "a/z uid=uid-a/z rv=5")
}

// TestSetMustRelistWithUncommittedChanges checks that MustRelist is stored at once and remains until the next list.
func TestSetMustRelistWithUncommittedChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, byHand())
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "1")
	apply(t, c, "2", upsert("a/x", "2"))
	if err := c.SetMustRelist(context.Background(), "asked to"); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "3", upsert("a/x", "3"))
	want := func(what, rv, reason string) {
		t.Helper()
		if info := infoOf(t, c); info.MustRelist != reason || info.ResourceVersion != rv {
			t.Errorf("%s: %+v", what, info)
		}
	}
	want("while it is pending", "3", "asked to")
	flush(t, s)
	want("in the file", "3", "asked to")
	apply(t, c, "4", upsert("a/x", "4"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenFile(t, path, byHand())
	c = openPods(t, s, nil)
	want("opened again", "4", "asked to")
	apply(t, c, "5", upsert("a/x", "5"))
	relist(t, c, store.ReplaceOptions{}, "6", upsert("a/x", "5"))
	want("after a list", "6", "")
	apply(t, c, "7", upsert("a/x", "7"))
	want("after a list and a batch", "7", "")
}

func TestReopenWithUncommittedChanges(t *testing.T) {
	s := storetest.Open(t, byHand())
	for rv := 2; rv < 20; rv += 2 {
		c := openPods(t, s, byNamespaceAndColor)
		now, then := string(rune('a'+rv)), string(rune('a'+rv-2))
		apply(t, c, strconv.Itoa(rv), remove("a/"+then, "1"), upsert("a/"+now, "1", storetest.ColorLabel, "red"))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Pending() != 0 {
			t.Fatalf("%d bytes are pending", s.Pending())
		}
		again := openPods(t, s, byNamespaceAndColor)
		wantStrings(t, "what is stored", list(t, again), "a/"+now+" uid=uid-a/"+now+" rv=1 color=red")
		wantKeys(t, again, "color", "red", "a/"+now)
		again.Close()
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	s := storetest.Open(t, store.Options{CommitInterval: time.Microsecond, CommitBytes: 500, Logger: &quiet})
	before := goleak.IgnoreCurrent()
	store.NoSync(s)
	c := openPods(t, s, nil)
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			for n := range 200 {
				rv := string(rune('1' + n%9))
				if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{upsert("a/x", rv)},
					ResourceVersion: rv}); err != nil {
					t.Error(err)
				}
				if i == 0 && n%10 == 0 {
					if err := s.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	both.Wait()
	goleak.VerifyNone(t, before)
	if s.Pending() != 0 {
		t.Errorf("%d bytes are dirty, and no commit is running", s.Pending())
	}
}
