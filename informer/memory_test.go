package informer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// liveCodec is a codec that counts which of its decoded objects are still in memory.
type liveCodec struct {
	codec.Codec
	live *atomic.Int64
}

func (c liveCodec) Decode(data []byte) (kruntime.Object, error) {
	obj, err := c.Codec.Decode(data)
	if pod, ok := obj.(*corev1.Pod); ok {
		c.live.Add(1)
		runtime.AddCleanup(pod, func(n *atomic.Int64) { n.Add(-1) }, c.live)
	}
	return obj, err
}

// inMemory returns the number of decoded objects that remain after garbage collection.
func (c liveCodec) inMemory() int64 {
	for last := int64(-1); ; {
		for range 3 {
			runtime.GC()
			synctest.Wait()
			runtime.Gosched()
		}
		if now := c.live.Load(); now == last {
			return now
		} else {
			last = now
		}
	}
}

// manyPods returns a server with n pods that do not change, and its watch.
func manyPods(n int) (cache.ListerWatcher, *watch.FakeWatcher) {
	var list corev1.PodList
	list.ResourceVersion = fmt.Sprint(n)
	for k := range n {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: fmt.Sprintf("%05d", k), UID: "u", ResourceVersion: fmt.Sprint(k + 1),
		}})
	}
	w := watch.NewFakeWithChanSize(8, false)
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kruntime.Object, error) {
			return list.DeepCopy(), nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w, nil },
	}, w
}

// still is a handler that blocks in each call until release is closed.
type still struct {
	calls   atomic.Int64
	release chan struct{}
	resyncs chan string // resyncs, if not nil, receives the name of the pod at each resync call
}

func (h *still) OnAdd(any, bool) { h.wait() }
func (h *still) OnUpdate(old, new any) {
	h.wait()
	if old == new && h.resyncs != nil {
		h.resyncs <- new.(*corev1.Pod).Name
	}
}
func (h *still) OnDelete(any) { h.wait() }
func (h *still) wait() {
	h.calls.Add(1)
	<-h.release
}

const (
	manyObjects = 5000
	// fewObjects bounds the decoded objects in memory: a page of the store and a page of a handler's queue, with a margin.
	fewObjects = 1500
)

// TestSlowHandlersHoldNoCollection checks that a blocked handler keeps at most a page of objects in memory, both while
// it gets the stored objects and in a resync.
func TestSlowHandlersHoldNoCollection(t *testing.T) {
	synctest.Test(t, testSlowHandlers)
}

func testSlowHandlers(t *testing.T) {
	slow := &still{release: make(chan struct{}), resyncs: make(chan string, manyObjects)}
	m := startMany(t, store.None, cache.ResourceEventHandlerFuncs{UpdateFunc: slow.OnUpdate})
	defer m.end()
	time.Sleep(time.Hour)
	synctest.Wait()
	if n := slow.calls.Load(); n != 1 {
		t.Fatalf("%d calls of a handler that stands still in a resync", n)
	}
	if n := m.codec.inMemory(); n > fewObjects {
		t.Errorf("in a resync %d decoded objects of %d are in memory", n, manyObjects)
	}
	late := &still{release: make(chan struct{})}
	if _, err := m.informer.AddEventHandlerWithResyncPeriod(late, 0); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if n := m.codec.inMemory(); n > 2*fewObjects {
		t.Errorf("in a replay %d decoded objects of %d are in memory", n, manyObjects)
	}
	close(slow.release)
	close(late.release)
	synctest.Wait()
	if n, k := len(slow.resyncs), late.calls.Load(); n != manyObjects || k != manyObjects {
		t.Errorf("%d resyncs and %d adds of %d objects", n, k, manyObjects)
	}
}

type many struct {
	informer *informer.Informer
	codec    liveCodec
	watch    *watch.FakeWatcher
	end      func()
}

func startMany(t *testing.T, residency store.Residency, h cache.ResourceEventHandler) many {
	t.Helper()
	quiet := logr.Discard()
	s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	codec := liveCodec{plain, new(atomic.Int64)}
	lw, w := manyPods(manyObjects)
	i, err := informer.New(lw, &corev1.Pod{}, informer.Options{
		Store: s, Codec: codec, Residency: residency, ResyncPeriod: time.Hour, Logger: &quiet,
		Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
	})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := i.AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { i.RunWithContext(ctx) })
	time.Sleep(time.Minute)
	synctest.Wait()
	if !reg.HasSynced() || !i.HasSynced() {
		t.Fatal("it has not synced")
	}
	return many{i, codec, w, func() {
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// TestResyncDuringChanges checks that a slow handler's resync never delivers an older state after a newer one, or an
// object after its delete.
func TestResyncDuringChanges(t *testing.T) {
	for _, residency := range []store.Residency{store.None, store.All} {
		t.Run(residency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testResyncDuringChanges(t, residency) })
		})
	}
}

func testResyncDuringChanges(t *testing.T, residency store.Residency) {
	const changed, gone = "04000", "04001"             // these are in a later page than the handler has read
	const changedInHand, goneInHand = "00100", "00101" // these are in the first page, which the handler has read
	received := map[string][]string{}                  // only the handler's goroutine writes to received
	release := make(chan struct{})
	m := startMany(t, residency, cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			<-release
			was, is := old.(*corev1.Pod), now.(*corev1.Pod)
			received[is.Name] = append(received[is.Name], was.ResourceVersion+" to "+is.ResourceVersion)
		},
		DeleteFunc: func(obj any) {
			<-release
			received[obj.(*corev1.Pod).Name] = append(received[obj.(*corev1.Pod).Name], "gone")
		},
	})
	defer m.end()
	time.Sleep(time.Hour)
	synctest.Wait()
	pod := func(name, rv string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", ResourceVersion: rv}}
	}
	m.watch.Modify(pod(changed, "6001"))
	m.watch.Delete(pod(gone, "6002"))
	m.watch.Modify(pod(changedInHand, "6003"))
	m.watch.Delete(pod(goneInHand, "6004"))
	synctest.Wait()
	close(release)
	synctest.Wait()
	for name, want := range map[string][]string{
		changed: {"4001 to 6001", "6001 to 6001"}, gone: {"gone"},
		changedInHand: {"101 to 101", "101 to 6003"}, goneInHand: {"102 to 102", "gone"},
		"04999": {"5000 to 5000"},
	} {
		got := received[name]
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestDurableHandlersHoldNoObjects checks that a durable handler keeps in memory the keys of due and failing changes,
// and at most a page of objects. Durable keys decode no objects.
func TestDurableHandlersHoldNoObjects(t *testing.T) {
	const due = 1000 // the maximum number of unacknowledged keys
	for _, tc := range []struct {
		name string
		add  func(i *informer.Informer) error
		most int64
	}{
		{"keys", func(i *informer.Informer) error {
			_, err := i.Durable().AddKeys("keys", func(cache.ObjectName) {})
			return err
		}, due / 10},
		{"failing", func(i *informer.Informer) error {
			_, err := i.Durable().Add("failing", durable.Handler{
				OnChange: func(context.Context, consumer.Change) error { return errors.New("from the test") },
			})
			return err
		}, due * 7 / 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startMany(t, store.None, cache.ResourceEventHandlerFuncs{})
				defer m.end()
				if err := tc.add(m.informer); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if s := m.informer.Status().Durable; len(s) != 1 || s[0].Failing != due || !s[0].Stalled ||
					s[0].Reset != consumer.ResetNew {
					t.Fatalf("%+v", s)
				}
				if n := m.codec.inMemory(); n > tc.most {
					t.Errorf("%d decoded objects are in memory", n)
				}
			})
		})
	}
}
