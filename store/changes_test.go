package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

func retainChanges(t *testing.T, c *store.Collection, keep time.Duration) {
	t.Helper()
	if err := c.RetainChanges(context.Background(), keep); err != nil {
		t.Fatal(err)
	}
}

// viewPods returns a View of c: the committed state, as another process sees the collection.
func viewPods(t *testing.T, s *store.Store, c *store.Collection) *store.View {
	t.Helper()
	v, err := s.ViewWith(context.Background(), c.Identity(), storetest.PodCodec())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// since returns the changes after an offset, with a star for each created object, and the last offset.
func since(t *testing.T, v *store.View, after uint64) (all []string, end uint64) {
	t.Helper()
	for {
		p, err := v.Changes(context.Background(), after)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Changes {
			line := changeText(c)
			if c.Created > after {
				line += " *"
			}
			all = append(all, line)
		}
		if after = p.End; !p.More {
			return all, after
		}
	}
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, s *store.Store, c *store.Collection) consumer.Kept {
	t.Helper()
	k, err := s.Kept(context.Background(), c.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestChangesSinceOffset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	apply(t, c, "3", upsert("a/x", "1"), upsert("a/y", "2"), upsert("a/z", "3"))
	if k := kept(t, s, c); k.For != 0 || k.Last != 3 {
		t.Fatalf("before it is asked for: %+v", k)
	}
	_, err := viewPods(t, s, c).Changes(t.Context(), 3)
	if !errors.Is(err, consumer.ErrNotKept) {
		t.Fatal("not kept:", err)
	}
	retainChanges(t, c, time.Hour)
	if k := kept(t, s, c); k != (consumer.Kept{For: time.Hour, Oldest: 3, Last: 3}) {
		t.Fatalf("%+v", k)
	}
	apply(t, c, "5", upsert("a/y", "4"), upsert("a/n", "5"))
	apply(t, c, "6", remove("a/x", "6"), object(storetest.Pod("a/z", "another", "6")))
	want := []string{"+ a/y uid=uid-a/y rv=4", "+ a/n uid=uid-a/n rv=5 *", "- a/x uid=uid-a/x rv=6",
		"- a/z uid=uid-a/z rv=3", "+ a/z uid=another rv=6 *"}
	got, end := since(t, viewPods(t, s, c), 3)
	wantStrings(t, "since 3", got, want...)
	got, _ = since(t, viewPods(t, s, c), 5)
	wantStrings(t, "since 5", got, want[2:]...)
	got, _ = since(t, viewPods(t, s, c), end)
	wantStrings(t, "since the end", got)
	sound(t, s)
	closeStore(t, s)

	s = storetest.OpenFile(t, path, store.Options{ReadOnly: true})
	id := c.Identity()
	v, err := s.ViewWith(t.Context(), id, storetest.PodCodec())
	if err != nil {
		t.Fatal(err)
	}
	got, _ = since(t, v, 3)
	wantStrings(t, "after a restart", got, want...)
	p, err := v.Changes(t.Context(), 3)
	if err != nil || len(p.Changes) < 2 || p.Changes[0].Created != 2 || p.Changes[1].Created != 5 {
		t.Errorf("what was created before changes were kept is known, too: %+v, %v", p.Changes, err)
	}
	if v.Changed() != nil {
		t.Error("Changed is not nil in a read-only store")
	}
	for _, bad := range []uint64{2, end + 1} {
		var since *consumer.SinceError
		if _, err := v.Changes(t.Context(), bad); !errors.As(err, &since) ||
			*since != (consumer.SinceError{Since: bad, Oldest: 3, Last: end}) {
			t.Errorf("since %d: %v", bad, err)
		}
	}
	closeStore(t, s)
}

func TestChangelogID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.AtOnce(store.Options{}))
	changelogID := func(s *store.Store, namespace string) string {
		t.Helper()
		id := storetest.Pods
		id.Namespace = namespace
		got, err := s.ChangelogID(t.Context(), id)
		if err != nil || len(got) != 8 {
			t.Fatalf("%q, %v", got, err)
		}
		return got
	}
	first := changelogID(s, "a")
	other := storetest.OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), store.Options{})
	if first == changelogID(s, "b") || first == changelogID(other, "a") {
		t.Error("another collection or file has the same")
	}
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if changelogID(s, "a") != first {
		t.Error("a compaction has changed it")
	}
}

func TestChangesRetention(t *testing.T) {
	for _, tc := range []struct {
		keep    time.Duration
		handler bool
		after   time.Duration
		left    int
		oldest  uint64
	}{
		{time.Hour, false, 59 * time.Minute, 2, 2},
		{time.Hour, false, 61 * time.Minute, 0, 5},
		{time.Hour, true, 61 * time.Minute, 1, 4},
		{10 * day, true, 8 * day, 2, 2},
		{10 * day, true, 11 * day, 0, 5},
	} {
		t.Run(fmt.Sprintf("%s of %s, handler %t", tc.after, tc.keep, tc.handler), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := byHand()
				o.Hooks = &hook.Hooks{IdentityInterval: day}
				s := storetest.Open(t, o)
				c := openPods(t, s, nil)
				apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
				flush(t, s)
				retainChanges(t, c, tc.keep)
				apply(t, c, "3", upsert("a/z", "3"))
				flush(t, s)
				apply(t, c, "4", remove("a/x", "4"))
				flush(t, s)
				var f *store.Cursor
				if tc.handler {
					f = cursorOf(t, c, "h")
					catchUp(t, f)
				}
				apply(t, c, "5", remove("a/y", "5"))
				flush(t, s)
				time.Sleep(tc.after)
				apply(t, c, "6", upsert("a/z", "6"))
				flush(t, s)
				if n := tombstones(c); n != tc.left {
					t.Errorf("%d tombstones are left, want %d", n, tc.left)
				}
				if k := kept(t, s, c); k != (consumer.Kept{For: tc.keep, Oldest: tc.oldest, Last: 6}) {
					t.Errorf("%+v, want the oldest to be %d", k, tc.oldest)
				}
				_, err := viewPods(t, s, c).Changes(t.Context(), 2)
				var since *consumer.SinceError
				if refused := errors.As(err, &since); refused != (tc.oldest > 2) || !refused && err != nil {
					t.Errorf("since 2: %v", err)
				}
				if f == nil {
					return
				}
				// A durable handler must not start over while the tombstones after its position are kept.
				if position, _, err := f.Position(); err != nil || position.Replaying != (tc.left == 0) {
					t.Errorf("the handler is at %+v, %v", position, err)
				}
			})
		})
	}
}

// TestRetainChangesDuringTrim checks a call of RetainChanges with a longer retention while a commit drops tombstones:
// the reported range of kept changes must not include the dropped tombstones.
func TestRetainChangesDuringTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := openGated(t, filepath.Join(t.TempDir(), "larder.db"))
		c := openPods(t, s, nil)
		retainChanges(t, c, time.Hour)
		apply(t, c, "1", upsert("a/x", "1"))
		flush(t, s)
		apply(t, c, "2", remove("a/x", "2"))
		flush(t, s)
		time.Sleep(61 * time.Minute)
		apply(t, c, "3", upsert("a/z", "3"))
		done := make(chan error, 2)
		_, release := g.Hold()
		go func() { done <- s.Flush(context.Background()) }()
		synctest.Wait()
		go func() { done <- c.RetainChanges(context.Background(), 2*time.Hour) }()
		synctest.Wait()
		release()
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if n, k := tombstones(c), kept(t, s, c); n != 0 || k != (consumer.Kept{For: 2 * time.Hour, Oldest: 2, Last: 3}) {
			t.Errorf("%d tombstones, %+v; the one of 2 is gone, so 2 is the oldest", n, k)
		}
		var since *consumer.SinceError
		if _, err := viewPods(t, s, c).Changes(t.Context(), 1); !errors.As(err, &since) {
			t.Errorf("since 1: %v", err)
		}
		closeStore(t, s)
	})
}

func TestChangesLimit(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	store.SetTombstoneLimit(c, 2)
	apply(t, c, "4", upsert("a/1", "1"), upsert("a/2", "2"), upsert("a/3", "3"), upsert("a/4", "4"))
	retainChanges(t, c, time.Hour)
	for n := range 4 {
		apply(t, c, fmt.Sprint(5+n), remove(fmt.Sprint("a/", n+1), fmt.Sprint(5+n)))
	}
	k := kept(t, s, c)
	if k.Oldest <= 4 || k.Oldest > 6 || k.Last != 8 {
		t.Errorf("%+v", k)
	}
	got, _ := since(t, viewPods(t, s, c), k.Oldest)
	if len(got) != int(k.Last-k.Oldest) {
		t.Errorf("since %d: %q", k.Oldest, got)
	}
}

func TestRetainChangesEnds(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	retainChanges(t, c, 0)
	retainChanges(t, c, time.Hour)
	apply(t, c, "1", upsert("a/x", "1"))
	apply(t, c, "2", remove("a/x", "2"))
	retainChanges(t, c, 2*time.Hour)
	if k := kept(t, s, c); k != (consumer.Kept{For: 2 * time.Hour, Oldest: 0, Last: 2}) {
		t.Errorf("another time: %+v", k)
	}
	f := cursorOf(t, c, "h")
	apply(t, c, "3", upsert("a/x", "3"))
	retainChanges(t, c, 0)
	if k := kept(t, s, c); k.For != 0 {
		t.Errorf("%+v", k)
	}
	sound(t, s)
	apply(t, c, "4", remove("a/x", "4"))
	wantStrings(t, "a handler goes on", catchUp(t, f), "- a/x uid=uid-a/x rv=4")
	f.Close()
	retainChanges(t, c, time.Hour)
	if err := c.ForgetCursor(t.Context(), "h"); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "5", upsert("a/x", "5"))
	got, _ := since(t, viewPods(t, s, c), 4)
	wantStrings(t, "without the handler", got, "+ a/x uid=uid-a/x rv=5 *")
	retainChanges(t, c, 0)
	apply(t, c, "6", upsert("a/x", "6"))
	if _, err := viewPods(t, s, c).Changes(t.Context(), 5); !errors.Is(err, consumer.ErrNotKept) {
		t.Error(err)
	}
	if err := c.RetainChanges(t.Context(), -1); err == nil {
		t.Error("a time that is negative was not refused")
	}
	infos, err := c.Cursors(t.Context())
	if err != nil || len(infos) != 0 {
		t.Errorf("handlers %+v, %v", infos, err)
	}
}

// TestViewChanged checks that a commit and Collection.Close close the channel of View.Changed, and that View.Changed
// returns nil once no collection is open for writing.
func TestViewChanged(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	v := viewPods(t, s, c)
	changed := v.Changed()
	select {
	case <-changed:
		t.Fatal("nothing has changed")
	default:
	}
	apply(t, c, "1", upsert("a/x", "1"))
	<-changed
	changed = v.Changed()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-changed
	if v.Changed() != nil {
		t.Error("Changed is not nil although no collection is open for writing")
	}
}

// TestChangesAfterDataLoss checks that a repair that has lost an object invalidates all offsets: readers must list.
func TestChangesAfterDataLoss(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
	retainChanges(t, c, time.Hour)
	apply(t, c, "3", upsert("a/z", "3"))
	err := tamperWith(c, func(b *bolt.Bucket) error {
		return b.Bucket(disk.Objects).Put([]byte("a/x"), []byte("damaged"))
	})
	if err != nil {
		t.Fatal(err)
	}
	s = salvage(t, s, store.AtOnce(store.Options{}))
	c = openPods(t, s, nil)
	k := kept(t, s, c)
	if k.For != time.Hour || k.Oldest != k.Last || k.Last != 4 {
		t.Errorf("%+v", k)
	}
	apply(t, c, "4", upsert("a/z", "4"))
	got, _ := since(t, viewPods(t, s, c), k.Last)
	wantStrings(t, "afterwards", got, "+ a/z uid=uid-a/z rv=4")
}
