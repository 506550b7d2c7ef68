package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestAddIndexersHoldsOnePage: neither the build of an index over a full collection, nor look-ups until it has been
// built, hold more decoded objects than a page.
func TestAddIndexersHoldsOnePage(t *testing.T) {
	for name, test := range map[string]struct{ objects, bytes, every, lookedUp, built int }{
		"Small": {objects: soaked(1600, 3500), bytes: 10, every: 50, lookedUp: 500, built: 1000},
		"Large": {objects: soaked(100, 150), bytes: 100_000, every: 5, lookedUp: 42, built: 42}, // 4 MiB
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, store.Options{})
			store.NoSync(s)
			codec := newLedger(test.every)
			c := openPodsWith(t, s, store.CollectionOptions{Residency: store.None, Codec: codec})
			colored(t, c, test.objects, test.bytes)
			codec.take()
			build := store.HoldBuild(c, "color")
			if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
				t.Fatal(err)
			}
			for what, lookUp := range lookUps(c) {
				if got, err := lookUp(t.Context()); err != nil || got != 2 {
					t.Errorf("%s: %d, %v", what, got, err)
				}
				wantHeld(t, codec, what, test.objects, test.lookedUp)
			}
			build()
			store.WaitBuilds(c)
			if !store.IndexReady(c, "color") {
				t.Fatal("the index has not been built")
			}
			wantHeld(t, codec, "the build", test.objects, test.built)
		})
	}
}

// lookUps are all that an index is asked, over pods of which two are red.
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

func wantHeld(t *testing.T, codec *ledger, what string, total, most int) {
	t.Helper()
	const found = 2 // the objects that are looked up
	if decoded, held := codec.take(); decoded != total || held > most+found {
		t.Errorf("%s: %d of %d objects were decoded, and %d were held at a time, want at most %d", what, decoded, total, held,
			most+found)
	}
}

// scanned is a collection of several pages, with an index that is not built. Whenever an object has been looked at,
// meanwhile is called.
func scanned(t *testing.T, s *store.Store, n int, meanwhile func(c *store.Collection, name string)) *store.Collection {
	t.Helper()
	c := openPods(t, s, nil)
	colored(t, c, n, 10)
	build := store.HoldBuild(c, "color")
	busy := true
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": func(obj any) ([]string, error) {
		if pod := obj.(*corev1.Pod); !busy { // else it is called for what meanwhile writes
			busy = true
			meanwhile(c, pod.Name)
			busy = false
		}
		return storetest.ByColor(obj)
	}}, nil); err != nil {
		t.Fatal(err)
	}
	busy = false
	t.Cleanup(func() {
		busy = true
		build()
		store.WaitBuilds(c)
	})
	return c
}

// TestScanIsOfOneMoment: while the first page is looked at and while the last is, one object is red and one blue;
// which, changes between.
func TestScanIsOfOneMoment(t *testing.T) {
	const n = 1300
	first, last := "a/pod00000", fmt.Sprintf("a/pod%05d", n-1)
	for name, committed := range map[string]bool{"Pending": false, "Committed": true} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Open(t, byHand())
			store.NoSync(s)
			swaps, rv := 0, n+1
			c := scanned(t, s, n, func(c *store.Collection, name string) {
				if name != "pod00600" { // of the second page
					return
				}
				colors := []string{"red", "blue"}
				rv += 2
				swaps++ // the first is blue after the first swap
				apply(t, c, fmt.Sprint(rv), upsert(first, fmt.Sprint(rv-1), storetest.ColorLabel, colors[swaps%2]),
					upsert(last, fmt.Sprint(rv), storetest.ColorLabel, colors[(swaps+1)%2]))
				if committed {
					flush(t, s)
				}
			})
			apply(t, c, fmt.Sprint(rv), upsert(last, fmt.Sprint(rv), storetest.ColorLabel, "blue"))
			for what, lookUp := range lookUps(c) {
				want, before := 1, swaps
				if what == "IndexValues" {
					want = 3 // with green
				}
				if got, err := lookUp(t.Context()); err != nil || got != want {
					t.Errorf("%s: %d, %v, want %d", what, got, err, want)
				}
				if swaps == before {
					t.Errorf("%s: nothing was written meanwhile", what)
				}
			}
		})
	}
}

// TestScanWhileAllIsWritten: it ends although more is written while it goes on than a page has, and it sees what came,
// what went and what has another color.
func TestScanWhileAllIsWritten(t *testing.T) {
	n := soaked(600, 1300) // a page has 500
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	rv := n
	colors := []string{"red", "green"}
	rounds := 0
	write := func(c *store.Collection) {
		rounds++
		var ops []store.Op
		for i := range n {
			rv++
			if i != 300 && i%10 == rounds%10 {
				ops = append(ops, remove(fmt.Sprintf("a/pod%05d", i), fmt.Sprint(rv)))
				continue
			}
			ops = append(ops, upsert(fmt.Sprintf("a/pod%05d", i), fmt.Sprint(rv), storetest.ColorLabel, colors[rounds%2]))
		}
		apply(t, c, fmt.Sprint(rv), ops...)
		flush(t, s)
	}
	c := scanned(t, s, n, func(c *store.Collection, name string) {
		if name == "pod00300" && rounds < 100 {
			write(c)
		}
	})
	write(c)
	for what := range lookUps(c) {
		keys, err := c.IndexKeys(t.Context(), "color", "red")
		if err != nil {
			t.Fatal(err)
		}
		values, err := c.IndexValues(t.Context(), "color")
		// All are of one color; that of pod 300 is among those that stay.
		if len(keys) != 0 && len(keys) < n*9/10 || err != nil || len(values) != 1 {
			t.Errorf("%s: %d red keys, values %q, %v", what, len(keys), values, err)
		}
	}
	if rounds < 9 || rounds >= 100 {
		t.Errorf("written %d times", rounds)
	}
}

// TestScanForgetsWhatIsForgotten: what was pending, and did not come to the file, is not in the result.
func TestScanForgetsWhatIsForgotten(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := scanned(t, s, 1300, func(c *store.Collection, name string) {
		if name == "pod00600" {
			store.ForgetPending(c)
		}
	})
	apply(t, c, "2000", upsert("a/pod00000", "1500", storetest.ColorLabel, "green"), remove("a/pod01299", "1501"),
		upsert("a/pod00001", "2000", storetest.ColorLabel, "red"))
	wantKeys(t, c, "color", "red", "a/pod00000", "a/pod01299")
}

// TestScanForNoValue: an object without values has nothing in common with the others.
func TestScanForNoValue(t *testing.T) {
	c := scanned(t, storetest.Open(t, byHand()), 10, func(*store.Collection, string) {})
	for color, want := range map[string]int{"red": 2, "": 0} {
		if objs, err := c.Indexer().Index("color", storetest.Pod("a/x", "x", "1", storetest.ColorLabel, color)); err != nil ||
			len(objs) != want {
			t.Errorf("%q: %d objects, %v; want %d", color, len(objs), err, want)
		}
	}
}

// TestScanIsCanceled between pages.
func TestScanIsCanceled(t *testing.T) {
	s := storetest.Open(t, byHand())
	ctx, cancel := context.WithCancel(t.Context())
	c := scanned(t, s, 1300, func(_ *store.Collection, name string) {
		if name > "pod00600" {
			t.Errorf("%s is looked at", name)
		}
		if name == "pod00600" {
			cancel()
		}
	})
	if _, err := c.IndexKeys(ctx, "color", "red"); !errors.Is(err, context.Canceled) {
		t.Errorf("IndexKeys: %v", err)
	}
}
