package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// blockedIndex is an index function that waits until proceed is closed, and counts its calls.
type blockedIndex struct {
	proceed chan struct{}
	calls   atomic.Int32
}

func newBlockedIndex() *blockedIndex { return &blockedIndex{proceed: make(chan struct{})} }

func (h *blockedIndex) color(obj any) ([]string, error) {
	if _, isPod := obj.(*corev1.Pod); isPod {
		h.calls.Add(1)
		<-h.proceed
	}
	return storetest.ByColor(obj)
}

// unbuilt reopens the pods of fileColored. The build of their index "color" waits until h.proceed is closed.
func unbuilt(t *testing.T, s *store.Store, n int) (c *store.Collection, h *blockedIndex) {
	t.Helper()
	fileColored(t, s, n, 10)
	h = newBlockedIndex()
	c = openPods(t, s, cache.Indexers{"color": h.color})
	c.BuildIndexes()
	return c, h
}

// fileColored stores n pods of at least that many bytes. The first and the last pod are red, the others green.
func fileColored(t *testing.T, s *store.Store, n, bytes int) {
	t.Helper()
	c := openPods(t, s, nil)
	colored(t, c, n, bytes)
	closeNow(t, c)
}

func lookUps(c *store.Collection) map[string]func(context.Context) (int, error) {
	return map[string]func(context.Context) (int, error){
		"ByIndex": func(ctx context.Context) (int, error) {
			objs, err := c.ByIndex(ctx, "color", "red")
			return len(objs), err
		},
		"IndexKeys": func(ctx context.Context) (int, error) {
			keys, err := c.IndexKeys(ctx, "color", "red")
			return len(keys), err
		},
		"IndexValues": func(ctx context.Context) (int, error) {
			values, err := c.IndexValues(ctx, "color")
			return len(values), err
		},
	}
}

// TestLookUpWaitsForTheBuild checks that look-ups in an index wait for its build, and do not call the index function.
func TestLookUpWaitsForTheBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 10
		c, h := unbuilt(t, storetest.Open(t, byHand()), pods)
		i := c.Indexer()
		all := lookUps(c)
		all["Indexer.Index"] = func(context.Context) (int, error) {
			objs, err := i.Index("color", storetest.Pod("a/x", "x", "1", storetest.ColorLabel, "red"))
			return len(objs), err
		}
		all["Indexer.ListIndexFuncValues"] = func(context.Context) (int, error) {
			return len(i.ListIndexFuncValues("color")), i.Err()
		}
		var ended atomic.Int32
		for what, lookUp := range all {
			go func() {
				if n, err := lookUp(t.Context()); err != nil || n != 2 {
					t.Errorf("%s: %d, %v", what, n, err)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		if n := ended.Load(); n != 0 {
			t.Errorf("%d look-ups have not waited", n)
		}
		close(h.proceed)
		synctest.Wait()
		// The build calls the index function once for each pod. The method Index calls it once more, for its argument.
		if n, calls := ended.Load(), h.calls.Load(); n != int32(len(all)) || calls != pods+1 {
			t.Errorf("%d of %d look-ups have ended; the function was called %d times", n, len(all), calls)
		}
	})
}

// TestLookUpStopsWaiting checks that contexts and Close end look-ups that wait for the build of an index.
func TestLookUpStopsWaiting(t *testing.T) {
	for name, stop := range map[string]struct {
		by   func(cancel func(), c *store.Collection, s *store.Store)
		want error
	}{
		"Context":    {func(cancel func(), _ *store.Collection, _ *store.Store) { cancel() }, context.Canceled},
		"Collection": {func(_ func(), c *store.Collection, _ *store.Store) { go c.Close() }, store.ErrClosed},
		"Store":      {func(_ func(), _ *store.Collection, s *store.Store) { go s.Close() }, store.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := storetest.Open(t, byHand())
				c, h := unbuilt(t, s, 10)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				errs := make(chan error, 3)
				for _, lookUp := range lookUps(c) {
					go func() {
						_, err := lookUp(ctx)
						errs <- err
					}()
				}
				synctest.Wait()
				stop.by(cancel, c, s)
				synctest.Wait()
				for range cap(errs) {
					select {
					case err := <-errs:
						if !errors.Is(err, stop.want) {
							t.Errorf("%v, want %v", err, stop.want)
						}
					default:
						t.Error("a look-up still waits")
					}
				}
				close(h.proceed)
				synctest.Wait()
			})
		})
	}
}

// TestLookUpWhileTheBuildFails checks that look-ups return the error for which the index could not be built.
func TestLookUpWhileTheBuildFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		g := store.GateCommits(s)
		c, h := unbuilt(t, s, 10)
		g.Fail(full)
		close(h.proceed)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for what, lookUp := range lookUps(c) {
			if _, err := lookUp(ctx); !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), `"color"`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		g.Fail(nil)
		time.Sleep(time.Minute)
		for what, lookUp := range lookUps(c) {
			if n, err := lookUp(t.Context()); err != nil || n != 2 {
				t.Errorf("%s: %d, %v", what, n, err)
			}
		}
	})
}

// TestLookUpWhileTheDiskHangs checks that a look-up fails with ErrSlowDisk while the commit of the index build hangs.
func TestLookUpWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		g := store.GateCommits(s)
		c, h := unbuilt(t, s, 10)
		entered, release := g.Hold()
		close(h.proceed)
		<-entered
		for what, lookUp := range lookUps(c) {
			if _, err := lookUp(t.Context()); !errors.Is(err, store.ErrSlowDisk) {
				t.Errorf("%s: %v", what, err)
			}
		}
		release()
		for what, lookUp := range lookUps(c) {
			if n, err := lookUp(t.Context()); err != nil || n != 2 {
				t.Errorf("%s: %d, %v", what, n, err)
			}
		}
	})
}

// TestLookUpInAReadOnlyStore checks that look-ups in an unbuilt index fail with ErrReadOnly: no build will come.
func TestLookUpInAReadOnlyStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.Options{})
	colored(t, openPods(t, s, nil), 10, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenFile(t, path, store.Options{ReadOnly: true})
	c := openPods(t, s, cache.Indexers{"color": storetest.ByColor})
	for what, lookUp := range lookUps(c) {
		if _, err := lookUp(t.Context()); !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), "for writing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestIndexesAreBuiltTogether checks that all indexes that are known before the first build are built in one pass over
// the objects, and that no object is decoded before that pass.
func TestIndexesAreBuiltTogether(t *testing.T) {
	const pods = 10
	s := storetest.Open(t, byHand())
	fileColored(t, s, pods, 10)
	codec := newUsageCounter(0)
	color := func(i int) cache.Indexers { return cache.Indexers{fmt.Sprint("color ", i): storetest.ByColor} }
	c := openPodsWith(t, s, store.CollectionOptions{Residency: store.None, Codec: codec, Indexers: color(0)})
	for i := 1; i < 5; i++ {
		if err := c.AddIndexers(t.Context(), color(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if decoded, _ := codec.take(); decoded != 0 {
		t.Errorf("%d objects were decoded before the start", decoded)
	}
	for i := range 5 {
		wantKeys(t, c, fmt.Sprint("color ", i), "red", "a/pod00000", fmt.Sprintf("a/pod%05d", pods-1))
	}
	if decoded, _ := codec.take(); decoded != pods { // the look-ups of keys have decoded no object
		t.Errorf("%d objects were decoded for 5 indexes over %d pods", decoded, pods)
	}
}

// TestBuildHoldsOnePage checks that an index build holds at most one page of decoded objects (4 MiB) in memory.
func TestBuildHoldsOnePage(t *testing.T) {
	for name, test := range map[string]struct{ objects, bytes, every, most int }{
		"Small": {objects: soaked(1600, 3500), bytes: 10, every: 50, most: 1000},
		// A page of a scan has about 4 MiB, which is 42 objects of 100,000 bytes.
		"Large": {objects: soaked(100, 150), bytes: 100_000, every: 5, most: 42},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, store.Options{})
			store.NoSync(s)
			codec := newUsageCounter(test.every)
			c := openPodsWith(t, s, store.CollectionOptions{Residency: store.None, Codec: codec})
			colored(t, c, test.objects, test.bytes)
			flush(t, s)
			codec.take()
			if err := c.AddIndexers(t.Context(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
				t.Fatal(err)
			}
			wantKeys(t, c, "color", "red", "a/pod00000", fmt.Sprintf("a/pod%05d", test.objects-1))
			if decoded, held := codec.take(); decoded != test.objects || held > test.most {
				t.Errorf("%d of %d objects were decoded, and %d were held at a time, want at most %d", decoded, test.objects,
					held, test.most)
			}
		})
	}
}

func TestLookUpForNoValue(t *testing.T) {
	c, h := unbuilt(t, storetest.Open(t, byHand()), 10)
	close(h.proceed)
	for color, want := range map[string]int{"red": 2, "": 0} {
		if objs, err := c.Indexer().Index("color", storetest.Pod("a/x", "x", "1", storetest.ColorLabel, color)); err != nil ||
			len(objs) != want {
			t.Errorf("%q: %d objects, %v; want %d", color, len(objs), err, want)
		}
	}
}
