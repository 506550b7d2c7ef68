package store_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// soak returns n, or ten times n with LARDER_SOAK=1.
func soak(n int) int { return soaked(n, 10*n) }

// raceKeys is the number of keys. In state n, all keys but one have an object at resourceVersion n and of color n%7.
const raceKeys = 9

func raceKey(i int) string { return fmt.Sprintf("ns%d/pod%d", i%3, i) }

// raceBatch returns a batch after which the collection is in state n, whatever its state was.
func raceBatch(n int) entry.Batch {
	rv := strconv.Itoa(n)
	b := entry.Batch{ResourceVersion: rv}
	for i := range raceKeys {
		if i == n%raceKeys {
			b.Ops = append(b.Ops, remove(raceKey(i), rv))
		} else {
			b.Ops = append(b.Ops, upsert(raceKey(i), rv, storetest.ColorLabel, "c"+strconv.Itoa(n%7)))
		}
	}
	return b
}

// stateOf returns the number of the state to which these objects belong. It fails if they are not one whole state.
func stateOf(objs []runtime.Object, want func(n int) []string) (n int, err error) {
	if len(objs) == 0 {
		return 0, fmt.Errorf("there are no objects")
	}
	var keys []string
	for _, obj := range objs {
		pod := obj.(*corev1.Pod)
		rv, err := strconv.Atoi(pod.ResourceVersion)
		if err != nil {
			return 0, err
		}
		if n != 0 && n != rv || pod.Labels[storetest.ColorLabel] != "c"+strconv.Itoa(rv%7) {
			return 0, fmt.Errorf("%s beside %d", storetest.Sum(pod), n)
		}
		n = rv
		keys = append(keys, cache.MetaObjectToName(pod).String())
	}
	if !slices.Equal(keys, want(n)) {
		return n, fmt.Errorf("state %d has %q, want %q", n, keys, want(n))
	}
	return n, nil
}

func raceState(namespace string) func(n int) []string {
	return func(n int) (keys []string) {
		for i := range raceKeys {
			if key := raceKey(i); i != n%raceKeys && strings.HasPrefix(key, namespace) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys
	}
}

// raceReads are reads that return the number of the collection's state, and fail for a mixture of states.
func raceReads(c *store.Collection) map[string]func(ctx context.Context) (int, error) {
	return map[string]func(ctx context.Context) (int, error){
		"List": func(ctx context.Context) (int, error) {
			objs, err := c.List(ctx)
			if err != nil {
				return 0, err
			}
			return stateOf(objs, raceState(""))
		},
		"ByIndex": func(ctx context.Context) (int, error) {
			objs, err := c.ByIndex(ctx, cache.NamespaceIndex, "ns1")
			if err != nil {
				return 0, err
			}
			return stateOf(objs, raceState("ns1/"))
		},
		"IndexValues": func(ctx context.Context) (int, error) {
			values, err := c.IndexValues(ctx, "color")
			if err == nil && len(values) != 1 {
				err = fmt.Errorf("colors %q", values)
			}
			return 0, err
		},
		"Iterate": func(ctx context.Context) (int, error) {
			var objs []runtime.Object
			err := c.Iterate(ctx, "", func(_ string, obj runtime.Object) error {
				objs = append(objs, obj)
				return nil
			})
			if err != nil {
				return 0, err
			}
			return stateOf(objs, raceState(""))
		},
		"Keys": func(ctx context.Context) (int, error) {
			keys, err := c.Keys(ctx)
			if err == nil && len(keys) != raceKeys-1 {
				err = fmt.Errorf("keys %q", keys)
			}
			return 0, err
		},
		"Info": func(ctx context.Context) (int, error) {
			info, err := c.Info(ctx)
			if err != nil {
				return 0, err
			}
			n, err := strconv.Atoi(info.ResourceVersion)
			if info.Objects != raceKeys-1 || info.Newest[0].ResourceVersion != info.ResourceVersion {
				err = fmt.Errorf("info %+v, %w", info, err)
			}
			return n, err
		},
	}
}

// TestReadersDuringCommits checks that no read returns a mixture of batches, or goes back to an older state.
func TestReadersDuringCommits(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]store.Options{
		"EveryMicrosecond": {CommitInterval: time.Microsecond, Logger: &quiet},
		"EveryByte":        {CommitInterval: time.Hour, CommitBytes: 1, Logger: &quiet},
	} {
		t.Run(name, func(t *testing.T) { testReadersDuringCommits(t, o) })
	}
}

func testReadersDuringCommits(t *testing.T, o store.Options) {
	s := storetest.Open(t, o)
	store.NoSync(s)
	c := openPods(t, s, byNamespaceAndColor)
	if _, err := c.Apply(t.Context(), raceBatch(1)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	reads := raceReads(c)
	for first := range 3 {
		names := slices.Sorted(maps.Keys(reads))
		readers.Go(func() {
			last := 0
			for i := first; ctx.Err() == nil; i++ {
				name := names[i%len(names)]
				n, err := reads[name](context.Background())
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if n != 0 && n < last {
					t.Errorf("%s: state %d after %d", name, n, last)
					return
				}
				last = max(last, n)
			}
		})
	}
	for n := 2; n < soaked(600, 15_000) && !t.Failed(); n++ {
		if _, err := c.Apply(t.Context(), raceBatch(n)); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	readers.Wait()
}
