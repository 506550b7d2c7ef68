package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// openDetached opens the store at path, which is open already, in memory.
func openDetached(t *testing.T, path string, o store.Options) *store.Store {
	t.Helper()
	o.MemoryWhileLocked, o.LockTimeout = true, -1
	s := storetest.OpenFile(t, path, o)
	if err := s.Detached(); !errors.Is(err, store.ErrDetached) || !errors.Is(err, store.ErrLocked) {
		t.Fatalf("detached: %v", err)
	}
	return s
}

// attached reports whether s has its file.
func attached(s *store.Store) bool {
	select {
	case <-s.Attached():
		return s.Detached() == nil
	default:
		return false
	}
}

// awaitAttached gives s time to take its file.
func awaitAttached(t *testing.T, s *store.Store) {
	t.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if !attached(s) {
		t.Fatalf("the file is free, and the store has not got it: %v", s.Detached())
	}
}

// leave fills the store at path as an older process would, and returns it open.
func leave(t *testing.T, path string, indexers cache.Indexers, ops ...store.Op) *store.Store {
	t.Helper()
	s := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
	c := openPods(t, s, indexers)
	relist(t, c, store.ReplaceOptions{Attributes: store.Attributes{ClusterID: "c"}}, "10", ops...)
	return s
}

var oldPods = []store.Op{
	upsert("a/changed", "1", storetest.ColorLabel, "red"), upsert("a/gone", "2", storetest.ColorLabel, "red"),
	upsert("b/same", "3", storetest.ColorLabel, "red"), upsert("b/again", "4", storetest.ColorLabel, "blue"),
}

var newPods = []store.Op{
	upsert("a/changed", "11", storetest.ColorLabel, "green"), upsert("b/same", "3", storetest.ColorLabel, "red"),
	{Object: storetest.Pod("b/again", "another uid", "12", storetest.ColorLabel, "red")}, upsert("c/new", "13", storetest.ColorLabel, "red"),
}

// contents is everything that can be read of a collection, by indexes too.
func contents(t *testing.T, c *store.Collection) []string {
	t.Helper()
	got := list(t, c)
	for _, index := range []string{cache.NamespaceIndex, "color"} {
		values, err := c.IndexValues(t.Context(), index)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			keys, err := c.IndexKeys(t.Context(), index, value)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s=%s: %v", index, value, keys))
		}
	}
	info := infoOf(t, c)
	return append(got, fmt.Sprint(info.ResourceVersion, info.Complete, info.MustRelist, info.Objects, info.Attributes, info.Newest))
}

// TestAttach: what a store in memory has is in its file once that is free, whatever the file had: what was changed, deleted and created again, by every index, and with what came
// while nobody could commit.
func TestAttach(t *testing.T) {
	for _, residency := range residencies {
		for version, versions := range map[string]map[string]string{"Versions": {"color": "1"}, "NoVersions": nil} {
			for _, interval := range []time.Duration{0, -1} {
				t.Run(fmt.Sprintf("%s%s%v", residency, version, interval), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testAttach(t, residency, versions, interval) })
				})
			}
		}
	}
}

func testAttach(t *testing.T, residency store.Residency, versions map[string]string, interval time.Duration) {
	path := filepath.Join(t.TempDir(), "larder.db")
	old := leave(t, path, byNamespaceAndColor, oldPods...)
	s := openDetached(t, path, store.Options{CommitInterval: interval})
	o := store.CollectionOptions{Residency: residency, Indexers: byNamespaceAndColor, IndexVersions: versions}
	c := openPodsWith(t, s, o)
	attrs := store.Attributes{ClusterID: "c", Schema: "newer"}
	relist(t, c, store.ReplaceOptions{Attributes: attrs}, "20", newPods...)
	apply(t, c, "21", upsert("c/later", "21", storetest.ColorLabel, "blue"), remove("c/new", "21"))
	if err := s.PutDocument(t.Context(), "d", []byte("newer")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if attached(s) || s.Written() != 0 {
		t.Fatalf("attached while another has the file; %d bytes written", s.Written())
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "22", upsert("b/last", "22", storetest.ColorLabel, "green"))
	want := contents(t, c)
	awaitAttached(t, s)
	wantStrings(t, "after the attachment", contents(t, c), want...)
	storetest.Check(t, s)
	apply(t, c, "23", upsert("b/same", "23", storetest.ColorLabel, "blue"))
	want = contents(t, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := storetest.OpenFile(t, path, store.Options{})
	wantStrings(t, "after a restart", contents(t, openPodsWith(t, again, o)), want...)
	if d, err := again.Document(t.Context(), "d"); string(d) != "newer" || err != nil {
		t.Errorf("the document is %q, %v", d, err)
	}
	store.WaitBuilds(openNamed(t, again, "another"))
	storetest.Check(t, again)
}

// openNamed opens the collection of the pods of a namespace.
func openNamed(t *testing.T, s *store.Store, namespace string) *store.Collection {
	t.Helper()
	id := storetest.Pods
	id.Namespace = namespace
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: storetest.PodCodec(), Residency: store.None, Indexers: byNamespaceAndColor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAttachFindsContents: of what nothing was listed meanwhile, the file's contents are there once it is free, also by an index whose function is another one today.
func TestAttachFindsContents(t *testing.T) {
	byRV := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "color": func(obj any) ([]string, error) {
		return []string{"not " + strings.Join(must(storetest.ByColor(obj)), " ")}, nil
	}}
	for _, residency := range residencies {
		t.Run(residency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				old := leave(t, path, byNamespaceAndColor, oldPods...)
				s := openDetached(t, path, store.Options{})
				c := openPodsAs(t, s, byRV, residency)
				unknown := openNamed(t, s, "b")
				if info := infoOf(t, c); info.Complete || len(list(t, c)) != 0 {
					t.Errorf("in memory: %+v", info)
				}
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				awaitAttached(t, s)
				select {
				case <-c.Found():
				default:
					t.Error("nobody is told that there are contents")
				}
				select {
				case <-unknown.Found():
					t.Error("contents were found of what the file does not have")
				default:
				}
				if got := list(t, c); len(got) != len(oldPods) {
					t.Errorf("contents %q", got)
				}
				keys, err := c.IndexKeys(t.Context(), "color", "not red")
				if err != nil {
					t.Fatal(err)
				}
				wantStrings(t, "by today's function", keys, "a/changed", "a/gone", "b/same")
				if info := infoOf(t, c); !info.Complete || info.ResourceVersion != "10" || info.Attributes.ClusterID != "c" {
					t.Errorf("info %+v", info)
				}
				apply(t, c, "30", remove("a/gone", "30"), upsert("a/new", "29"))
				store.WaitBuilds(c)
				if !store.IndexReady(c, "color") {
					t.Error("the index is not built")
				}
				relist(t, c, store.ReplaceOptions{}, "40", newPods...)
				storetest.Check(t, s)
			})
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestAttachWaitsForFirstLists: while one is taken in, the file, which may have the collection whole, is left alone; but not for ever.
func TestAttachWaitsForFirstLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := leave(t, path, byNamespaceAndColor, oldPods...)
		s := openDetached(t, path, store.Options{})
		c := openPods(t, s, byNamespaceAndColor)
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err == nil {
			_, err = r.Page(t.Context(), pods(newPods[0]))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.Detached(); err == nil || !strings.Contains(err.Error(), "first list") {
			t.Errorf("detached: %v", err)
		}
		other := storetest.OpenFile(t, path, store.Options{LockTimeout: -1})
		if got := list(t, openPods(t, other, nil)); len(got) != len(oldPods) {
			t.Errorf("the file has %q", got)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if !attached(s) {
			t.Fatalf("still detached: %v", s.Detached())
		}
		if _, err := r.Page(t.Context(), pods(newPods[1:]...)); err != nil {
			t.Fatal(err)
		}
		commitAll(t, r, "20")
		if info := infoOf(t, c); !info.Complete || info.Objects != len(newPods) {
			t.Errorf("info %+v", info)
		}
		storetest.Check(t, s)
	})
}

// TestAttachAmidALaterList: a list over what is in memory goes on over the same in the file.
func TestAttachAmidALaterList(t *testing.T) {
	for name, staging := range map[string]int{"InMemory": 1 << 20, "Spilled": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				old := leave(t, path, nil, oldPods...)
				s := openDetached(t, path, store.Options{})
				c := openPods(t, s, byNamespaceAndColor)
				store.SetLimits(c, staging, 1<<20)
				relist(t, c, store.ReplaceOptions{}, "20", newPods[0], newPods[1])
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
				awaitAttached(t, s)
				_, err = r.Page(t.Context(), pods(newPods[2], newPods[3]))
				if staging == 10 {
					if !errors.Is(err, store.ErrReplaceLost) {
						t.Errorf("a list that was in part in memory's file goes on: %v", err)
					}
					r.Abort()
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				commitAll(t, r, "30")
				if got := list(t, c); len(got) != 3 || got[0] != "a/changed uid=uid-a/changed rv=1 color=red" {
					t.Errorf("contents %q", got)
				}
				storetest.Check(t, s)
			})
		})
	}
}

// TestAttachFeedsDurableHandlers: a handler that the older process had is told of what differs, deletes and re-creations too, and of nothing before that.
func TestAttachFeedsDurableHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
		c := openPods(t, old, nil)
		relist(t, c, store.ReplaceOptions{}, "10", oldPods...)
		f, err := c.Feed(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		place, resets, err := f.Place()
		if err != nil {
			t.Fatal(err)
		}
		place.Replaying, place.Told = false, true
		if err := f.Acknowledge(place, resets); err != nil {
			t.Fatal(err)
		}
		s := openDetached(t, path, store.Options{})
		b := openPods(t, s, byNamespaceAndColor)
		relist(t, b, store.ReplaceOptions{}, "20", newPods...)
		if _, err := b.Feed(t.Context(), "h"); !errors.Is(err, store.ErrDetached) {
			t.Errorf("registered without a file: %v", err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		awaitAttached(t, s)
		if f, err = b.Feed(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		place, resets, err = f.Place()
		if err != nil || place.Replaying || resets != 0 {
			t.Fatalf("place %+v, %d resets, %v", place, resets, err)
		}
		p, err := f.Read(t.Context(), place.Seq)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, ch := range p.Changes {
			got[ch.Key] += fmt.Sprintf("%s %s;", ch.Type, ch.ResourceVersion)
		}
		want := map[string]string{
			"a/changed": "Upsert 11;", "a/gone": "Delete 2;", "b/again": "Delete 4;Upsert 12;", "c/new": "Upsert 13;",
		}
		if !maps.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		storetest.Check(t, s)
	})
}

// TestAttachInParts: where it takes several transactions, what a crash between them leaves must be listed.
func TestAttachInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := leave(t, path, byNamespaceAndColor, upsert("z/z", "1"))
		gate := &hook.Gate{}
		s := openDetached(t, path, store.Options{Hooks: &hook.Hooks{Commit: gate.Commit}})
		c := openPods(t, s, byNamespaceAndColor)
		store.SetAttachLimit(c, 1000)
		var ops []store.Op
		for i := range 3000 {
			ops = append(ops, upsert(fmt.Sprintf("a/%04d", i), "5", storetest.ColorLabel, "red"))
		}
		relist(t, c, store.ReplaceOptions{}, "20", ops...)
		want := contents(t, c)
		before, parts := gate.Attempts(), 0
		gate.After(func() error {
			if gate.Attempts() < before+2 { // the first is that of opening the file
				return nil
			}
			parts++
			if parts != 2 {
				return nil
			}
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.WriteFile(copied, must(os.ReadFile(path)), 0o600); err != nil {
				return err
			}
			crashed := storetest.OpenFile(t, copied, store.Options{})
			infos, err := crashed.Collections(context.Background())
			if err != nil || len(infos) != 1 || infos[0].MustRelist == "" || infos[0].ResourceVersion != "10" {
				t.Errorf("a crash would leave %+v, %v", infos, err)
			}
			return nil
		})
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		awaitAttached(t, s)
		if parts < 3 {
			t.Errorf("%d transactions", parts)
		}
		wantStrings(t, "contents", contents(t, c), want...)
		storetest.Check(t, s)
	})
}

// TestAttachKeepsWhatIsTheSame: what the file has already is not written again.
func TestAttachKeepsWhatIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		var ops []store.Op
		for i := range 5000 {
			ops = append(ops, upsert(fmt.Sprintf("a/%04d", i), "5", storetest.ColorLabel, "red"))
		}
		old := leave(t, path, byNamespaceAndColor, ops...)
		s := openDetached(t, path, store.Options{})
		c := openPodsWith(t, s, store.CollectionOptions{Indexers: byNamespaceAndColor})
		relist(t, c, store.ReplaceOptions{}, "20", slices.Concat(ops[:100], []store.Op{upsert("a/0100", "6")}, ops[101:])...)
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		awaitAttached(t, s)
		if n := s.Written(); n > 100<<10 {
			t.Errorf("%d bytes were written for one object", n)
		}
		if seq, _, err := store.Header(c, "a/0099"); seq != 100 || err != nil {
			t.Errorf("a record that is the same was written again, as number %d, %v", seq, err)
		}
	})
}
