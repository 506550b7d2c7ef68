package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestScrubDoesNotPinPages checks that a Scrub has no transaction open while its rate limit makes it wait: an open
// transaction would keep freed pages from being reused, and the file would grow.
func TestScrubDoesNotPinPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		store.NoSync(s)
		c := openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
		body := strings.Repeat("x", 8<<10)
		var items []entry.Op
		for n := range 1500 {
			items = append(items, upsert(fmt.Sprintf("a/%04d", n), "1", storetest.ColorLabel, body))
		}
		relist(t, c, store.ReplaceOptions{}, "5", items...)
		scrubbed := make(chan error, 1)
		go func() { scrubbed <- s.Scrub(t.Context()) }()
		synctest.Wait() // The rate limit makes the Scrub wait.
		select {
		case err := <-scrubbed:
			t.Fatalf("it has not paused: %v", err)
		default:
		}
		before, _, err := s.Size()
		for rv := 10; rv < 400; rv++ {
			for n := range 10 {
				at := fmt.Sprintf("a/%04d", (rv*10+n)%1500)
				apply(t, c, fmt.Sprint(rv), upsert(at, fmt.Sprint(rv), storetest.ColorLabel, body))
			}
			flush(t, s)
		}
		after, _, err2 := s.Size()
		if err != nil || err2 != nil || after > before*3/2 {
			t.Errorf("the file has grown from %d to %d bytes; %v, %v", before, after, err, err2)
		}
		if err := <-scrubbed; err != nil {
			t.Error(err)
		}
	})
}

// interference is an operation between two transactions of a Scrub. It may reopen the collection, which it returns.
type interference func(t *testing.T, s *store.Store, c *store.Collection) *store.Collection

func compacts(t *testing.T, s *store.Store, c *store.Collection) *store.Collection {
	if _, err := s.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	return c
}

func dropsAndLists(t *testing.T, s *store.Store, c *store.Collection) *store.Collection {
	if err := errors.Join(c.Close(), s.Drop(t.Context(), storetest.Pods)); err != nil {
		t.Error(err)
	}
	return listed(t, s)
}

func restartsChangelog(t *testing.T, _ *store.Store, c *store.Collection) *store.Collection {
	if err := c.ForgetCursor(t.Context(), "h"); err != nil {
		t.Error(err)
	}
	handler(t, c)
	return c
}

// TestScrubDuringWrites checks that a Scrub reports no damage if records, collections, changelogs and the file change
// while it waits, and that it reports a record that is lost meanwhile.
func TestScrubDuringWrites(t *testing.T) {
	for name, test := range map[string]struct {
		lose bool
		also interference
	}{
		"changes":          {},
		"changes and loss": {lose: true},
		"a compaction":     {also: compacts},
		"a collection that is dropped and listed": {also: dropsAndLists},
		"a changelog that ends and begins":        {also: restartsChangelog},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { scrubDuringWrites(t, test.lose, test.also) })
		})
	}
}

func scrubDuringWrites(t *testing.T, lose bool, also interference) {
	// storetest.Open would fail the test, because this file is damaged at the end.
	s, err := store.Open(t.TempDir()+"/larder.db", byHand())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	store.NoSync(s)
	c := listed(t, s)
	rv, random := 10, rand.New(rand.NewPCG(1, 2))
	change := func() {
		for range 20 {
			rv++
			if key := fmt.Sprintf("a/%04d", random.IntN(4000)); random.IntN(2) == 0 {
				apply(t, c, fmt.Sprint(rv), remove(key, fmt.Sprint(rv)))
			} else {
				apply(t, c, fmt.Sprint(rv), upsert(key, fmt.Sprint(rv), storetest.ColorLabel, largeBody))
			}
		}
		flush(t, s)
	}
	for range 50 {
		change()
	}
	scrubbed := make(chan error, 1)
	go func() { scrubbed <- s.Scrub(t.Context()) }()
	for round := 0; ; round++ {
		synctest.Wait()
		select {
		case err := <-scrubbed:
			if round < 10 {
				t.Errorf("it has paused %d times only", round)
			}
			if lost := err != nil && strings.Contains(err.Error(), "info record says"); err != nil && !lost || lost != lose {
				t.Errorf("with a loss %v: %v", lose, err)
			}
			return
		default:
		}
		if round == 2 && lose {
			loseRecord(t, c)
		}
		// The Scrub has found the lost record, so the store refuses writes.
		if lose && s.Err() != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		change()
		if also != nil && round < 40 && round%4 == 3 {
			c = also(t, s, c)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var largeBody = strings.Repeat("x", 4<<10)

func listed(t *testing.T, s *store.Store) *store.Collection {
	t.Helper()
	c := openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
	store.SetTombstoneLimit(c, 400)
	handler(t, c)
	relist(t, c, store.ReplaceOptions{}, "5", largeItems()...)
	return c
}

func largeItems() (items []entry.Op) {
	for n := range 2000 {
		items = append(items, upsert(fmt.Sprintf("a/%04d", n), "1", storetest.ColorLabel, largeBody))
	}
	return items
}

// handler registers a durable handler that acknowledges nothing, so that tombstones stay.
func handler(t *testing.T, c *store.Collection) {
	t.Helper()
	f, err := c.OpenCursor(t.Context(), "h")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// loseRecord removes the last record from the file, but not its index entries, nor from the number of objects.
func loseRecord(t *testing.T, c *store.Collection) {
	t.Helper()
	err := tamperWith(c, func(b *bolt.Bucket) error {
		objects := b.Bucket(disk.Objects)
		k, _ := objects.Cursor().Last()
		return objects.Delete(k)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScrubDuringAList checks that a Scrub reports no damage while a list removes the objects of an interrupted list.
func TestScrubDuringAList(t *testing.T) {
	for pause := range 10 {
		t.Run(fmt.Sprintf("at pause %d", pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { scrubDuringAList(t, pause) })
		})
	}
}

func scrubDuringAList(t *testing.T, pause int) {
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	c := openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Page(t.Context(), podsOf(largeItems()...)); err != nil {
		t.Fatal(err)
	}
	r.Abort()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	scrubbed := make(chan error, 1)
	go func() { scrubbed <- s.Scrub(t.Context()) }()
	for range pause {
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
	}
	synctest.Wait()
	c = openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
	relist(t, c, store.ReplaceOptions{}, "5", largeItems()[:1000]...)
	if err := <-scrubbed; err != nil {
		t.Error(err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 || r.Objects != 1000 {
		t.Errorf("%+v, %v", r, err)
	}
}
