package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

func committedPosition(t *testing.T, s *store.Store) consumer.Position {
	t.Helper()
	handlers, err := s.Cursors(context.Background(), storetest.Pods)
	if err != nil || len(handlers) != 1 {
		t.Fatalf("handlers: %+v, %v", handlers, err)
	}
	return handlers[0].Position
}

// acknowledge sets a durable handler's position to seq. failing are the keys on which the handler failed.
func acknowledge(t *testing.T, f *store.Cursor, seq uint64, failing map[string]uint64) {
	t.Helper()
	position, resets, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	position.Seq, position.Failing, position.Replaying = seq, failing, false
	if err := f.Acknowledge(position, resets); err != nil {
		t.Fatal(err)
	}
}

// TestPositionIsInTheNextCommit checks that the next commit writes the position that a durable handler has
// acknowledged. If commits fail or are in progress, Close writes the position.
func TestPositionIsInTheNextCommit(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		name        string
		acknowledge func(t *testing.T, s *store.Store, c *store.Collection, first, acknowledge func())
	}{
		{"Flush", func(t *testing.T, s *store.Store, _ *store.Collection, _, acknowledge func()) {
			acknowledge()
			flush(t, s)
		}},
		{"while a commit is under way", func(t *testing.T, s *store.Store, c *store.Collection, first, acknowledge func()) {
			g := store.GateCommits(s)
			apply(t, c, "9", upsert("a/other", "9"))
			first()
			finish := hang(t, s, g)
			acknowledge()
			if err := finish(); err != nil {
				t.Fatal(err)
			}
			flush(t, s)
		}},
		{"before a commit that fails", func(t *testing.T, s *store.Store, _ *store.Collection, _, acknowledge func()) {
			g := store.GateCommits(s)
			acknowledge()
			g.Fail(full)
			if err := s.Flush(ctx); !errors.Is(err, store.ErrNoSpace) {
				t.Fatalf("Flush: %v, want ErrNoSpace", err)
			}
			g.Fail(nil)
			flush(t, s)
		}},
		{"Close of the collection", func(t *testing.T, _ *store.Store, c *store.Collection, _, acknowledge func()) {
			acknowledge()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}},
		{"Close of the store", func(t *testing.T, s *store.Store, _ *store.Collection, _, acknowledge func()) {
			acknowledge()
			mustClose(t, s)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "larder.db")
			s := storetest.OpenFile(t, path, byHand())
			c := openPods(t, s, nil)
			f := cursorOf(t, c, "h")
			relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1"), upsert("a/y", "2"))
			flush(t, s)
			want := infoOf(t, c).NextSeq - 1
			if before := committedPosition(t, s).Seq; before >= want {
				t.Fatalf("it is at %d already", before)
			}
			first := func() { acknowledge(t, f, want-1, nil) }
			test.acknowledge(t, s, c, first, func() { acknowledge(t, f, want, map[string]uint64{"a/x": 1}) })
			if _, _, err := s.Size(); err != nil {
				s = storetest.OpenFile(t, path, byHand())
			}
			if got := committedPosition(t, s); got.Seq != want || !maps.Equal(got.Failing, map[string]uint64{"a/x": 1}) {
				t.Errorf("the file has the position %+v, want %d", got, want)
			}
		})
	}
}

// TestTombstoneOfAFailingDelete checks that the tombstone of a delete on which a durable handler failed stays until the
// handler succeeds, although the handler's position is beyond that delete.
func TestTombstoneOfAFailingDelete(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, byHand())
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "3", upsert("a/x", "1"), upsert("a/y", "2"), upsert("a/z", "3"))
	f := cursorOf(t, c, "h")
	apply(t, c, "5", remove("a/x", "4"), remove("a/y", "5"))
	flush(t, s)
	p, _, err := f.Read(ctx, consumer.Position{})
	if err != nil {
		t.Fatal(err)
	}
	failing, last := map[string]uint64{}, uint64(0)
	for _, change := range p.Changes {
		if last = change.Seq; change.Key == "a/x" {
			failing["a/x"] = change.Seq
		}
	}
	deletes := func() (keys []string) {
		t.Helper()
		for _, key := range []string{"a/x", "a/y"} {
			p, err := f.Next(ctx, key, 1, last)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range p.Changes {
				keys = append(keys, change.Key)
			}
		}
		return keys
	}
	acknowledge(t, f, last, failing)
	for rv := range 3 {
		apply(t, c, fmt.Sprint(10+rv), upsert("a/z", fmt.Sprint(10+rv)))
		flush(t, s)
	}
	wantStrings(t, "deletes that are kept while one fails", deletes(), "a/x", "a/y")
	acknowledge(t, f, last, nil)
	for rv := range 3 {
		apply(t, c, fmt.Sprint(20+rv), upsert("a/z", fmt.Sprint(20+rv)))
		flush(t, s)
	}
	wantStrings(t, "deletes that are kept in the end", deletes())
}

func TestChangelogInPages(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, nil)
	var items []entry.Op
	var want []string
	for i := range 2_100 {
		key := fmt.Sprintf("a/%04d", i)
		items, want = append(items, upsert(key, fmt.Sprint(1+i))), append(want, key)
	}
	// The cursor is opened before the list, so that the changelog has every object of the list.
	f := cursorOf(t, c, "h")
	relist(t, c, store.ReplaceOptions{}, "3000", items...)
	var got []string
	pages := 0
	for at, more := (consumer.Position{}), true; more; pages++ {
		p, next, err := f.Read(context.Background(), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range p.Changes {
			got = append(got, change.Key)
		}
		at, more = next, p.More
	}
	wantStrings(t, fmt.Sprintf("%d pages", pages), got, want...)
	if pages < 3 {
		t.Errorf("%d changes came in %d pages", len(got), pages)
	}
}
