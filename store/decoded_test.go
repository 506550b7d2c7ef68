package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// usageCounter is a codec that counts the decoded pods, and how many of them are in use at the same time.
type usageCounter struct {
	codec.Codec
	every int // number of decoded pods between two counts of the pods in use; 0 means never

	mu    sync.Mutex
	total int // number of decoded pods; guarded by mu
	pods  []weak.Pointer[corev1.Pod]
	held  int // maximum number of pods in use at a time; guarded by mu
}

func newUsageCounter(every int) *usageCounter {
	return &usageCounter{Codec: storetest.PodCodec(), every: every}
}

func (l *usageCounter) Decode(data []byte) (k8sruntime.Object, error) {
	obj, err := l.Codec.Decode(data)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.pods = append(l.pods, weak.Make(obj.(*corev1.Pod)))
	if l.every > 0 && l.total%l.every == 0 {
		runtime.GC()
		l.pods = slices.DeleteFunc(l.pods, func(p weak.Pointer[corev1.Pod]) bool { return p.Value() == nil })
		l.held = max(l.held, len(l.pods))
	}
	runtime.KeepAlive(obj)
	return obj, nil
}

// take returns the counts since the previous call of take.
func (l *usageCounter) take() (total, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total, held = l.total, l.held
	l.total, l.pods, l.held = 0, nil, 0
	return total, held
}

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

// TestOpeningDecodesNothing checks that with Residency None, opening a collection and reading keys and index values
// decode no object. With Residency All each object is decoded once.
func TestOpeningDecodesNothing(t *testing.T) {
	for _, test := range []struct {
		residency store.Residency
		decoded   int
	}{{store.None, 0}, {store.All, 1200}} {
		t.Run(test.residency.String(), func(t *testing.T) {
			path := t.TempDir() + "/store"
			s := storetest.OpenFile(t, path, store.Options{})
			fill(t, openPodsWith(t, s, store.CollectionOptions{Residency: store.None, Indexers: byNamespace}), 1200)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			codec := newUsageCounter(0)
			c := openPodsWith(t, storetest.OpenFile(t, path, store.Options{}), store.CollectionOptions{
				Residency: test.residency, Codec: codec, Indexers: byNamespace,
			})
			if err := c.WaitResident(t.Context()); err != nil {
				t.Fatal(err)
			}
			store.WaitBuilds(c)
			if info := infoOf(t, c); info.Objects != 1200 || c.Indexer().LastStoreSyncResourceVersion() != "1201" {
				t.Errorf("%+v", info)
			}
			if keys, err := c.Keys(t.Context()); err != nil || len(keys) != 1200 || len(c.Indexer().ListKeys()) != 1200 {
				t.Errorf("%d keys, %v", len(keys), err)
			}
			if keys, err := c.IndexKeys(t.Context(), cache.NamespaceIndex, "ns1"); err != nil || len(keys) != 400 {
				t.Errorf("%d keys of a namespace, %v", len(keys), err)
			}
			if values, err := c.IndexValues(t.Context(), cache.NamespaceIndex); err != nil || len(values) != 3 {
				t.Errorf("namespaces %q, %v", values, err)
			}
			if total, _ := codec.take(); total != test.decoded {
				t.Errorf("%d objects were decoded, want %d", total, test.decoded)
			}
		})
	}
}

// colored fills c with n pods of at least that many bytes each. The first and the last pod are red, the others green.
func colored(t *testing.T, c *store.Collection, n, bytes int) {
	t.Helper()
	var items []entry.Op
	for i := range n {
		color := "green"
		if i == 0 || i == n-1 {
			color = "red"
		}
		op := upsert(fmt.Sprintf("a/pod%05d", i), fmt.Sprint(i+1), storetest.ColorLabel, color)
		op.Object.(*corev1.Pod).Annotations = map[string]string{"large": strings.Repeat("x", bytes)}
		items = append(items, op)
	}
	relist(t, c, store.ReplaceOptions{}, fmt.Sprint(n), items...)
}

// pairing is a codec whose Decode waits for a second Decode, and calls alone if none begins within a minute.
type pairing struct {
	codec.Codec
	arrived chan struct{}
	alone   func()
}

func (p pairing) Decode(data []byte) (k8sruntime.Object, error) {
	select {
	case p.arrived <- struct{}{}:
	case <-p.arrived:
	// In the fake time of synctest, a minute passes only when every goroutine waits: no second Decode can follow.
	case <-time.After(time.Minute):
		p.alone()
	}
	return p.Codec.Decode(data)
}

// TestLargeObjectsAreDecodedOnAllCores checks that few large objects that are read together are decoded in parallel.
func TestLargeObjectsAreDecodedOnAllCores(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/store"
		s := storetest.OpenFile(t, path, store.Options{})
		colored(t, openPodsWith(t, s, store.CollectionOptions{Residency: store.None}), 40, 100_000)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		alone := 0
		codec := pairing{Codec: storetest.PodCodec(), arrived: make(chan struct{}), alone: func() {
			mu.Lock()
			defer mu.Unlock()
			alone++
		}}
		c := openPodsWith(t, storetest.OpenFile(t, path, store.Options{}),
			store.CollectionOptions{Residency: store.None, Codec: codec})
		objects := 0
		err := c.Iterate(t.Context(), "", func(string, k8sruntime.Object) error {
			objects++
			return nil
		})
		if err != nil || objects != 40 || alone > 0 {
			t.Errorf("%d objects, %v; %d of them were decoded while no other was", objects, err, alone)
		}
	})
}
