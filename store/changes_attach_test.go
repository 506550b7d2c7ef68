package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestChangesOverAnAttachBehindTheFile: where memory had heard less than the file tells, changes are kept on, and who has read them begins anew: nobody is told that what memory has yet
// to hear of is gone.
func TestChangesOverAnAttachBehindTheFile(t *testing.T) {
	for _, handler := range []bool{false, true} {
		t.Run(fmt.Sprintf("handler %t", handler), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				old := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
				c := openPods(t, old, nil)
				relist(t, c, store.ReplaceOptions{}, "10", oldPods...)
				keepChanges(t, c, time.Hour)
				if handler {
					catchUp(t, feedOf(t, c, "h"))
				}
				apply(t, c, "30", upsert("a/late", "30"))
				read := kept(t, old, c).Last
				s := openDetached(t, path, store.Options{})
				c = openPods(t, s, nil)
				relist(t, c, store.ReplaceOptions{}, "20", oldPods...)
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(6 * time.Minute)
				if !attached(s) {
					t.Fatalf("still in memory: %v", s.Detached())
				}
				k := kept(t, s, c)
				if k.For != time.Hour || k.Oldest <= read {
					t.Errorf("%+v after %d", k, read)
				}
				var since *store.SinceError
				if _, err := viewPods(t, s, c).Changes(t.Context(), read); !errors.As(err, &since) {
					t.Errorf("since %d: %v", read, err)
				}
				sound(t, s)
			})
		})
	}
}

// TestChangesKeptForLessOverARebuild: what is dropped when less is asked for stays known as dropped.
func TestChangesKeptForLessOverARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{CommitInterval: -1, Logger: &quiet})
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
		keepChanges(t, c, 24*time.Hour)
		apply(t, c, "3", remove("a/x", "3"))
		time.Sleep(2 * time.Hour)
		keepChanges(t, c, time.Hour)
		want := kept(t, s, c)
		if want.Oldest != 3 {
			t.Fatalf("%+v", want)
		}
		g.Fail(func() error { return syscall.EIO })
		if _, err := c.Apply(t.Context(), store.Batch{Ops: []store.Op{upsert("a/z", "4")}, ResourceVersion: "4"}); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		g.Fail(nil)
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k := kept(t, s, c); k != want {
			t.Errorf("%+v after a rebuild, was %+v", k, want)
		}
	})
}

// rebuildAfterFailure writes the store anew, as is done after a disk that failed.
func rebuildAfterFailure(t *testing.T, s *store.Store, g *store.Gate, c *store.Collection, rv string) {
	t.Helper()
	g.Fail(func() error { return syscall.EIO })
	if _, err := c.Apply(t.Context(), store.Batch{Ops: []store.Op{upsert("a/failing", rv)}, ResourceVersion: rv}); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	g.Fail(nil)
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestChangesOverARebuild: what is told is what was told before it: what was created is not told as changed, before and after.
func TestChangesOverARebuild(t *testing.T) {
	for name, open := range map[string]bool{"open": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, store.Options{CommitInterval: -1, Logger: &quiet})
			g := store.GateCommits(s)
			c := openPods(t, s, nil)
			apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
			keepChanges(t, c, time.Hour)
			apply(t, c, "4", upsert("a/z", "3"), upsert("a/y", "4"))
			apply(t, c, "5", remove("a/x", "5"))
			apply(t, c, "6", object(storetest.Pod("a/z", "another", "6")))
			want, _ := since(t, viewPods(t, s, c), 2)
			if open {
				rebuildAfterFailure(t, s, g, c, "7")
			} else {
				other, err := s.Collection(t.Context(), store.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: "b"}, store.CollectionOptions{Codec: storetest.PodCodec()})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				rebuildAfterFailure(t, s, g, other, "7")
				c = openPods(t, s, nil)
			}
			sound(t, s)
			got, end := since(t, viewPods(t, s, c), 2)
			wantStrings(t, "after a rebuild", got, want...)
			apply(t, c, "8", upsert("a/new", "8"))
			got, _ = since(t, viewPods(t, s, c), end)
			wantStrings(t, "what comes then", got, "+ a/new uid=uid-a/new rv=8 *")
			sound(t, s)
		})
	}
}

// TestChangesOverARebuildThatLosesBirths: who would take what is new for a modification begins anew.
func TestChangesOverARebuildThatLosesBirths(t *testing.T) {
	s := storetest.Open(t, store.Options{CommitInterval: -1, Logger: &quiet})
	c := openPods(t, s, nil)
	keepChanges(t, c, time.Hour)
	apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	err := store.Tamper(c, func(b *bolt.Bucket) error { return b.Bucket([]byte("births")).Put([]byte("a/x"), []byte("short")) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = openPods(t, s, nil)
	var gone *store.SinceError
	if _, err := viewPods(t, s, c).Changes(t.Context(), 2); !errors.As(err, &gone) {
		t.Errorf("since what was read before: %v", err)
	}
	k := kept(t, s, c)
	apply(t, c, "3", upsert("a/z", "3"))
	got, _ := since(t, viewPods(t, s, c), k.Last)
	wantStrings(t, "afterwards", got, "+ a/z uid=uid-a/z rv=3 *")
	sound(t, s)
}

// TestChangesWhosePlaceIsDamaged: the readers' place is no durable handler's: nothing is held for it for ever, who has read begins anew, and changes are kept on.
func TestChangesWhosePlaceIsDamaged(t *testing.T) {
	for _, handler := range []bool{false, true} {
		t.Run(fmt.Sprintf("handler %t", handler), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				s := storetest.OpenFile(t, path, store.Options{CommitInterval: -1, Logger: &quiet})
				c := openPods(t, s, nil)
				apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
				keepChanges(t, c, time.Hour)
				if handler {
					catchUp(t, feedOf(t, c, "h"))
				}
				apply(t, c, "3", remove("a/x", "3"))
				read := kept(t, s, c).Last
				err := store.Tamper(c, func(b *bolt.Bucket) error {
					return b.Bucket([]byte("handlers")).Put([]byte("\x00changes"), []byte("damaged"))
				})
				if err != nil {
					t.Fatal(err)
				}
				closeStore(t, s)
				s = storetest.OpenFile(t, path, store.Options{CommitInterval: -1, Logger: &quiet})
				c = openPods(t, s, nil)
				if s.Err() == nil {
					t.Error("the damage was not noticed")
				}
				if err := s.Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
				var gone *store.SinceError
				if _, err := viewPods(t, s, c).Changes(t.Context(), read); !errors.As(err, &gone) {
					t.Errorf("since what was read before: %v", err)
				}
				k := kept(t, s, c)
				if k.For == 0 || k.Oldest != k.Last {
					t.Errorf("%+v", k)
				}
				apply(t, c, "5", upsert("a/z", "4"), remove("a/y", "5"))
				got, _ := since(t, viewPods(t, s, c), k.Last)
				wantStrings(t, "what comes then", got, "+ a/z uid=uid-a/z rv=4 *", "- a/y uid=uid-a/y rv=5")
				keepChanges(t, c, 2*time.Hour)
				if now := kept(t, s, c); now.For != 2*time.Hour || now.Oldest != k.Oldest {
					t.Errorf("asked again: %+v, was %+v", now, k)
				}
				time.Sleep(3 * time.Hour)
				apply(t, c, "6", upsert("a/z", "6"))
				apply(t, c, "7", upsert("a/z", "7"))
				if now := kept(t, s, c); !handler && now.Oldest <= k.Oldest {
					t.Errorf("nothing is dropped: %+v", now)
				}
				sound(t, s)
			})
		})
	}
}

// TestAttachIsPatientAfterEachHolder: that the file was free once, before another process had it for long, is no reason to go over what that has written.
func TestAttachIsPatientAfterEachHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
		c := openPods(t, old, nil)
		relist(t, c, store.ReplaceOptions{}, "10", oldPods...)
		catchUp(t, feedOf(t, c, "h"))
		apply(t, c, "30", upsert("a/late", "30"))
		s := openDetached(t, path, store.Options{})
		relist(t, openPods(t, s, nil), store.ReplaceOptions{}, "20", oldPods...)
		closeStore(t, old)
		time.Sleep(2 * time.Minute)
		if attached(s) {
			t.Fatal("it has gone over what is newer")
		}
		other := storetest.OpenFile(t, path, store.Options{CommitInterval: -1, LockTimeout: time.Minute})
		c = openPods(t, other, nil)
		apply(t, c, "40", upsert("a/later", "40"))
		time.Sleep(10 * time.Minute)
		closeStore(t, other)
		time.Sleep(2 * time.Minute)
		if attached(s) {
			t.Error("it has gone over what another process has written, two minutes after that")
		}
		time.Sleep(4 * time.Minute)
		if !attached(s) {
			t.Errorf("still in memory: %v", s.Detached())
		}
		closeStore(t, s)
	})
}

// TestChangesAreTheStateAtEachCommit: however many updates come between commits, what is told since the last one, applied in order, is the state of then.
func TestChangesAreTheStateAtEachCommit(t *testing.T) {
	s := storetest.Open(t, store.Options{CommitInterval: time.Hour})
	c := openPods(t, s, nil)
	apply(t, c, "1", upsert("a/0", "1"))
	flush(t, s)
	keepChanges(t, c, time.Hour)
	v, random := viewPods(t, s, c), rand.New(rand.NewPCG(1, 2))
	now, told := map[string]string{"a/0": "1"}, map[string]string{"a/0": "1"}
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
				if changes++; change.Type == store.Delete {
					delete(told, change.Key)
					continue
				}
				if _, there := told[change.Key]; there == (change.Born > after) {
					t.Errorf("%s at %s: there %v, created at %d, read up to %d", change.Key, change.ResourceVersion, there, change.Born, after)
				}
				told[change.Key] = change.ResourceVersion
			}
			after, more = p.End, p.More
		}
		if !maps.Equal(told, now) {
			t.Fatalf("at %d it tells %v, and there is %v", rv, told, now)
		}
	}
	if changes == 0 || changes > updates/20 {
		t.Errorf("%d changes are told of %d updates in %d commits", changes, updates, updates/300)
	}
}
