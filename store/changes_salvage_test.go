package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestShorterRetentionAndCopy checks that tombstones that a shorter retention has dropped still count as dropped
// after the file was copied: Kept.Oldest, the oldest valid offset, stays the same.
func TestShorterRetentionAndCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.AtOnce(store.Options{Logger: &quiet}))
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
		retainChanges(t, c, 24*time.Hour)
		apply(t, c, "3", remove("a/x", "3"))
		time.Sleep(2 * time.Hour)
		retainChanges(t, c, time.Hour)
		want := kept(t, s, c)
		if want.Oldest != 3 {
			t.Fatalf("%+v", want)
		}
		g.Fail(func() error { return syscall.EIO })
		if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{upsert("a/z", "4")},
			ResourceVersion: "4"}); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		g.Fail(nil)
		mustCopyAgain(t, s)
		want.Last++ // for the write of a/z
		if k := kept(t, s, c); k != want {
			t.Errorf("%+v after the copy, was %+v", k, want)
		}
	})
}

func copyAfterFailure(t *testing.T, s *store.Store, g *hook.Gate, c *store.Collection, rv string) {
	t.Helper()
	g.Fail(func() error { return syscall.EIO })
	if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{upsert("a/failing", rv)},
		ResourceVersion: rv}); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	g.Fail(nil)
	mustCopyAgain(t, s)
}

// TestChangesAfterCopy checks that View.Changes still distinguishes created objects from updated ones.
func TestChangesAfterCopy(t *testing.T) {
	for name, open := range map[string]bool{"open": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, store.AtOnce(store.Options{Logger: &quiet}))
			g := store.GateCommits(s)
			c := openPods(t, s, nil)
			apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
			retainChanges(t, c, time.Hour)
			apply(t, c, "4", upsert("a/z", "3"), upsert("a/y", "4"))
			apply(t, c, "5", remove("a/x", "5"))
			apply(t, c, "6", object(storetest.Pod("a/z", "another", "6")))
			want, _ := since(t, viewPods(t, s, c), 2)
			if open {
				copyAfterFailure(t, s, g, c, "7")
				want = append(want, "+ a/failing uid=uid-a/failing rv=7 *")
			} else {
				other, err := s.Collection(t.Context(), entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource,
					Namespace: "b"}, store.CollectionOptions{Codec: storetest.PodCodec()})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				copyAfterFailure(t, s, g, other, "7")
				c = openPods(t, s, nil)
			}
			sound(t, s)
			got, end := since(t, viewPods(t, s, c), 2)
			wantStrings(t, "after the copy", got, want...)
			apply(t, c, "8", upsert("a/new", "8"))
			got, _ = since(t, viewPods(t, s, c), end)
			wantStrings(t, "what comes then", got, "+ a/new uid=uid-a/new rv=8 *")
			sound(t, s)
		})
	}
}

// TestChangesMatchTheState checks that a reader that applies View.Changes after each commit reaches the collection's
// state, and receives each object at most once per commit.
func TestChangesMatchTheState(t *testing.T) {
	s := storetest.Open(t, store.Options{CommitInterval: time.Hour})
	c := openPods(t, s, nil)
	apply(t, c, "1", upsert("a/0", "1"))
	flush(t, s)
	retainChanges(t, c, time.Hour)
	v, random := viewPods(t, s, c), rand.New(rand.NewPCG(1, 2))
	now, seen := map[string]string{"a/0": "1"}, map[string]string{"a/0": "1"}
	after, updates, changes := kept(t, s, c).Last, 0, 0
	for rv := 2; rv < 3000; rv++ {
		key, at := fmt.Sprintf("a/%d", random.IntN(5)), strconv.Itoa(rv)
		if _, there := now[key]; there && random.IntN(20) == 0 {
			apply(t, c, at, remove(key, at))
			delete(now, key)
		} else {
			apply(t, c, at, upsert(key, at))
			now[key] = at
		}
		if updates++; rv%300 != 0 {
			continue
		}
		flush(t, s)
		for more := true; more; {
			p, err := v.Changes(t.Context(), after)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range p.Changes {
				if changes++; change.Type == entry.Delete {
					delete(seen, change.Key)
					continue
				}
				if _, there := seen[change.Key]; there == (change.Created > after) {
					t.Errorf("%s at %s: there %v, created at %d, read up to %d", change.Key, change.ResourceVersion, there,
						change.Created, after)
				}
				seen[change.Key] = change.ResourceVersion
			}
			after, more = p.End, p.More
		}
		if !maps.Equal(seen, now) {
			t.Fatalf("at %d the changes give %v, want %v", rv, seen, now)
		}
	}
	if changes == 0 || changes > updates/20 {
		t.Errorf("%d changes are read of %d updates in %d commits", changes, updates, updates/300)
	}
}
