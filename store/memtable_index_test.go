package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func wantKeys(t *testing.T, c *store.Collection, index, value string, want ...string) {
	t.Helper()
	got, err := c.IndexKeys(context.Background(), index, value)
	if err != nil {
		t.Error(err)
	}
	wantStrings(t, index+" "+value, got, want...)
}

// TestAddIndexersWithUncommittedChanges checks that an added index is correct before and after the commit, for objects
// in the file, in the memtable or in both, and for objects on which the index function fails.
func TestAddIndexersWithUncommittedChanges(t *testing.T) {
	for name, cold := range map[string]bool{"OverAFile": false, "OverNothing": true} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, byHand())
			c := openPods(t, s, nil)
			inFile := []string{"a/file"}
			if cold {
				inFile = nil
			} else {
				relist(t, c, store.ReplaceOptions{}, "3", upsert("a/both", "1", storetest.ColorLabel, "green"),
					upsert("a/file", "2", storetest.ColorLabel, "red"), upsert("a/gone", "3", storetest.ColorLabel, "red"))
			}
			apply(t, c, "9", upsert("a/both", "4", storetest.ColorLabel, "red"),
				upsert("a/error", "5", storetest.ColorLabel, "red", storetest.FailLabel, "error"),
				upsert("a/new", "6", storetest.ColorLabel, "red.blue"), upsert("a/panic", "7", storetest.FailLabel, "panic"),
				remove("a/gone", "8"))
			if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
				t.Fatal(err)
			}
			red := append(append([]string{"a/both"}, inFile...), "a/new")
			check := func() {
				t.Helper()
				wantKeys(t, c, "color", "red", red...)
				wantKeys(t, c, "color", "blue", "a/new")
				wantKeys(t, c, "color", "green")
			}
			check()
			store.WaitBuilds(c)
			if !store.IndexReady(c, "color") {
				t.Error("not ready after the build")
			}
			check()
			flush(t, s)
			check()
			apply(t, c, "10", upsert("a/both", "10"))
			red = red[1:]
			check()
			flush(t, s)
			check()
			storetest.Check(t, s)
		})
	}
}

func TestAddIndexersWhileACommitHangs(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	apply(t, c, "2", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2", storetest.ColorLabel, "red"))
	finish := hang(t, s, g)
	added := make(chan error, 1)
	go func() { added <- c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil) }()
	apply(t, c, "4", upsert("a/x", "3", storetest.ColorLabel, "blue"), upsert("a/z", "4", storetest.ColorLabel, "blue"))
	wantKeys(t, c, cache.NamespaceIndex, "a", "a/x", "a/y", "a/z")
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	wantKeys(t, c, "color", "blue", "a/x", "a/z")
	wantKeys(t, c, "color", "red", "a/y")
}

// TestAddIndexersEndsWithItsCollection checks that Close waits for AddIndexers, which then fails with ErrClosed. An
// index that became ready after Close would lack the objects that the next owner of the collection has written.
func TestAddIndexersEndsWithItsCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		c := openPods(t, s, nil)
		apply(t, c, "2", upsert("a/x", "1", storetest.ColorLabel, "red"))
		flush(t, s)
		called, release := make(chan struct{}), make(chan struct{})
		once := sync.OnceFunc(func() { close(called) })
		slow := func(obj any) ([]string, error) {
			once()
			<-release
			return storetest.ByColor(obj)
		}
		versions := map[string]string{"color": "1"}
		added, closed := make(chan error, 1), make(chan error, 1)
		go func() { added <- c.AddIndexers(t.Context(), cache.Indexers{"color": slow}, versions) }()
		<-called
		go func() { closed <- c.Close() }()
		synctest.Wait()
		if len(closed) > 0 {
			t.Error("Close did not wait for AddIndexers")
		}
		close(release)
		if err := <-added; !errors.Is(err, store.ErrClosed) {
			t.Errorf("AddIndexers: %v", err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		err := c.AddIndexers(t.Context(), cache.Indexers{"color": storetest.ByColor}, versions)
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("AddIndexers after Close: %v", err)
		}
		c = openPods(t, s, nil)
		apply(t, c, "3", upsert("a/y", "2", storetest.ColorLabel, "red"))
		flush(t, s)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c = openPodsWith(t, s, store.CollectionOptions{
			Residency: store.None, Indexers: cache.Indexers{"color": storetest.ByColor}, IndexVersions: versions,
		})
		wantKeys(t, c, "color", "red", "a/x", "a/y")
		storetest.Check(t, s)
	})
}

// TestAddIndexersThatFailsInTheMiddle checks that an index whose build failed is added neither in memory nor in the
// file, and is complete once AddIndexers is repeated.
func TestAddIndexersThatFailsInTheMiddle(t *testing.T) {
	for _, residency := range []store.Residency{store.None, store.All} {
		t.Run(residency.String(), func(t *testing.T) {
			s := storetest.Open(t, byHand())
			g := store.GateCommits(s)
			c := openPodsAs(t, s, nil, residency)
			colored(t, c, 1500, 10)
			pages := 0
			color := func(obj any) ([]string, error) {
				if obj.(*corev1.Pod).Name == "pod01400" {
					// The commit fails once the index is built for the file: with Residency All, at the index function's second call.
					if pages++; residency == store.None || pages == 2 {
						g.Fail(full)
					}
				}
				return storetest.ByColor(obj)
			}
			versions := map[string]string{"color": "1"}
			err := c.AddIndexers(t.Context(), cache.Indexers{"color": color}, versions)
			if !errors.Is(err, store.ErrNoSpace) {
				t.Fatalf("AddIndexers: %v", err)
			}
			g.Fail(nil)
			if _, err := c.IndexKeys(t.Context(), "color", "red"); !errors.Is(err, store.ErrNoIndex) {
				t.Errorf("IndexKeys: %v", err)
			}
			view, err := s.ViewWith(t.Context(), storetest.Pods, storetest.PodCodec())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := view.IndexKeys(t.Context(), "color", "red"); !errors.Is(err, store.ErrNoIndex) {
				t.Errorf("IndexKeys of the file: %v", err)
			}
			apply(t, c, "3000", upsert("a/pod00000", "3000", storetest.ColorLabel, "blue"))
			if err := c.AddIndexers(t.Context(), cache.Indexers{"color": storetest.ByColor}, versions); err != nil {
				t.Fatal(err)
			}
			wantKeys(t, c, "color", "blue", "a/pod00000")
			wantKeys(t, c, "color", "red", "a/pod01499")
			storetest.Check(t, s)
		})
	}
}

// TestWritersWaitForAnAddedIndex checks that while AddIndexers calls its index function, writers wait and readers do
// not. The index then has the waiting writes.
func TestWritersWaitForAnAddedIndex(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Interface{
		"All":  func(t *testing.T) store.Interface { return openPodsAs(t, storetest.Open(t, byHand()), nil, store.All) },
		"None": func(t *testing.T) store.Interface { return openPods(t, storetest.Open(t, byHand()), nil) },
		"Memory": func(t *testing.T) store.Interface {
			c, err := memory.New(storetest.Pods, store.CollectionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h := open(t), newBlockedIndex()
				relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1", storetest.ColorLabel, "red"),
					upsert("a/y", "2", storetest.ColorLabel, "red"))
				added := make(chan error, 1)
				go func() { added <- c.AddIndexers(t.Context(), cache.Indexers{"color": h.color}, nil) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{remove("a/y", "3")}})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Apply: %v", err)
				}
				applied := make(chan error, 1)
				go func() {
					_, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{upsert("a/x", "4", storetest.ColorLabel, "blue")}})
					applied <- err
				}()
				synctest.Wait()
				if obj, err := c.Get(t.Context(), "a/x"); err != nil || obj.(*corev1.Pod).ResourceVersion != "1" {
					t.Errorf("Get: %v, %v", obj, err)
				}
				if len(applied) != 0 || len(added) != 0 {
					t.Errorf("returned: Apply %d, AddIndexers %d", len(applied), len(added))
				}
				close(h.proceed)
				if err := errors.Join(<-added, <-applied); err != nil {
					t.Fatal(err)
				}
				for color, want := range map[string]string{"red": "a/y", "blue": "a/x"} {
					if keys, err := c.IndexKeys(t.Context(), "color", color); err != nil || !slices.Equal(keys, []string{want}) {
						t.Errorf("%s: %q, %v", color, keys, err)
					}
				}
			})
		})
	}
}

// TestAddIndexersThatFails checks that a failed AddIndexers does not affect batches applied meanwhile.
func TestAddIndexersThatFails(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/x", "1", storetest.ColorLabel, "red"))
	apply(t, c, "2", upsert("a/y", "2", storetest.ColorLabel, "red"))
	g.Fail(full)
	wrong := func(any) ([]string, error) { return []string{"wrong"}, nil }
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": wrong}, nil); !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("AddIndexers: %v", err)
	}
	if _, err := c.IndexKeys(context.Background(), "color", "wrong"); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("IndexKeys: %v", err)
	}
	apply(t, c, "3", upsert("a/z", "3", storetest.FailLabel, "error"))
	g.Fail(nil)
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, c, "color", "red", "a/x", "a/y")
	wantKeys(t, c, "color", "wrong")
	store.WaitBuilds(c)
	flush(t, s)
	wantKeys(t, c, "color", "red", "a/x", "a/y")
	wantKeys(t, c, "color", "wrong")
	wantKeys(t, c, cache.NamespaceIndex, "a", "a/x", "a/y", "a/z")
	if s.Pending() != 0 {
		t.Errorf("%d bytes are pending", s.Pending())
	}
}

// TestStoredIndexIsNotTrustedWithUncommittedChanges checks a stored index to which this process adds the function only
// after it has applied batches: the index must have all changes.
func TestStoredIndexIsNotTrustedWithUncommittedChanges(t *testing.T) {
	for name, flushed := range map[string]bool{"Pending": false, "Committed": true} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, byHand())
			versions := map[string]string{"color": "1"}
			c := session(t, s, cache.Indexers{"color": storetest.ByColor}, versions)
			relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1", storetest.ColorLabel, "red"),
				upsert("a/y", "2", storetest.ColorLabel, "red"))
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			c = session(t, s, nil, nil)
			apply(t, c, "4", upsert("a/x", "3", storetest.ColorLabel, "blue"), upsert("a/z", "4", storetest.ColorLabel, "red"))
			if flushed {
				flush(t, s)
			}
			apply(t, c, "5", remove("a/y", "5"))
			if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, versions); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				wantKeys(t, c, "color", "red", "a/z")
				wantKeys(t, c, "color", "blue", "a/x")
				store.WaitBuilds(c)
				wantKeys(t, c, "color", "red", "a/z")
				flush(t, s)
			}
			storetest.Check(t, s)
		})
	}
}

func TestIndexesUnderLoad(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, store.Options{CommitInterval: time.Microsecond, Logger: &quiet})
	store.NoSync(s)
	c := openPods(t, s, nil)
	fill(t, c, 2000)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for n := 5000; ctx.Err() == nil; n++ {
			b := raceBatch(n)
			if _, err := c.Apply(t.Context(), b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range soak(4) {
		index := fmt.Sprintf("color %d", i)
		if err := c.AddIndexers(context.Background(), cache.Indexers{index: storetest.ByColor}, nil); err != nil {
			t.Fatal(err)
		}
		for _, built := range []bool{false, true} {
			if built {
				store.WaitBuilds(c)
			}
			// Green objects do not change. All other objects have one common color at any time.
			keys, err := c.IndexKeys(t.Context(), index, "green")
			if err != nil || len(keys) != 1000 {
				t.Errorf("%s: %d keys, %v", index, len(keys), err)
			}
			values, err := c.IndexValues(t.Context(), index)
			if err != nil || len(values) > 3 {
				t.Errorf("%s: values %q, %v", index, values, err)
			}
		}
	}
	stop()
	load.Wait()
	flush(t, s)
	storetest.Check(t, s)
}

func TestIndexModel(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	g := store.GateCommits(s)
	versions := map[string]string{"color": "1"}
	rapid.Check(t, func(rt *rapid.T) {
		c := session(t, s, nil, nil)
		defer func() {
			if err := c.Close(); err != nil {
				rt.Fatal(err)
			}
			if err := s.Drop(context.Background(), storetest.Pods); err != nil {
				rt.Fatal(err)
			}
		}()
		relist(t, c, store.ReplaceOptions{}, "1")
		h, added, finish := newHistory(), false, func() error { return nil }
		rt.Repeat(map[string]func(*rapid.T){
			"apply": func(rt *rapid.T) {
				if _, err := c.Apply(context.Background(), h.batch(rt)); err != nil {
					rt.Fatal(err)
				}
			},
			"flush": func(rt *rapid.T) {
				_ = finish()
				flush(t, s)
			},
			"hang": func(rt *rapid.T) {
				_ = finish()
				if s.Pending() > 0 {
					finish = hang(t, s, g)
				}
			},
			"add": func(rt *rapid.T) {
				_ = finish()
				if added {
					return
				}
				if rapid.Bool().Draw(rt, "fails") {
					g.Fail(full)
				}
				err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, versions)
				g.Fail(nil)
				added = err == nil
			},
			"build": func(*rapid.T) {
				_ = finish()
				store.WaitBuilds(c)
			},
			"reopen": func(rt *rapid.T) {
				_ = finish()
				if err := c.Close(); err != nil {
					rt.Fatal(err)
				}
				var indexers cache.Indexers
				if added = rapid.Bool().Draw(rt, "with the index"); added {
					indexers = cache.Indexers{"color": storetest.ByColor}
				}
				c = session(t, s, indexers, versions)
			},
			"": func(rt *rapid.T) {
				if added {
					h.wantPrefix(rt, c)
				}
				h.wantObjects(rt, c)
			},
		})
		_ = finish()
		flush(t, s)
		if r, err := store.CheckContent(context.Background(), s); err != nil || len(r.Problems) > 0 {
			rt.Fatalf("check: %v, %q", err, r.Problems)
		}
	})
}
