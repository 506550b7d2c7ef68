package informer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

// torrent is a server that lists pods, and then sends updates without a pause. It makes each object when it sends it,
// and keeps none.
type torrent struct {
	keys, updates int
	body          int // body is the number of bytes by which each object is enlarged
}

// firstVersion is the resourceVersion of the list. Each update increases the resourceVersion by one.
const firstVersion = 1000

func (s *torrent) pod(key, version int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: fmt.Sprintf("pod-%06d", key), UID: types.UID(fmt.Sprintf("uid-%d", key)),
			ResourceVersion: strconv.Itoa(version), Labels: map[string]string{"version": strconv.Itoa(version)},
			Annotations: map[string]string{"body": strings.Repeat("x", s.body)},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
	}
}

func (s *torrent) List(metav1.ListOptions) (apiruntime.Object, error) {
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(firstVersion)}}
	for k := range s.keys {
		l.Items = append(l.Items, *s.pod(k, firstVersion))
	}
	return l, nil
}

func (s *torrent) Watch(o metav1.ListOptions) (watch.Interface, error) {
	from, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &torrentWatch{result: make(chan watch.Event), done: make(chan struct{})}
	go func() {
		defer close(w.result)
		for version := from + 1; version <= firstVersion+s.updates; version++ {
			select {
			case w.result <- watch.Event{Type: watch.Modified, Object: s.pod(version*7919%s.keys, version)}:
			case <-w.done:
				return
			}
		}
		<-w.done
	}()
	return w, nil
}

// IsWatchListSemanticsUnSupported tells client-go's reflector to list instead.
func (s *torrent) IsWatchListSemanticsUnSupported() bool { return true }

type torrentWatch struct {
	result chan watch.Event
	done   chan struct{}
	once   sync.Once
}

func (w *torrentWatch) ResultChan() <-chan watch.Event { return w.result }
func (w *torrentWatch) Stop()                          { w.once.Do(func() { close(w.done) }) }

// heapBehind runs an informer whose handler never returns, until all goroutines are blocked. It returns by how many
// bytes the live heap has grown.
func heapBehind(t *testing.T, i cache.SharedIndexInformer, s *torrent, look func()) int64 {
	t.Helper()
	before := liveHeap()
	awake := make(chan struct{})
	sleep := func() { <-awake }
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { sleep() }, UpdateFunc: func(_, _ any) { sleep() },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { i.RunWithContext(ctx) })
	synctest.Wait()
	if rv := i.LastSyncResourceVersion(); rv != strconv.Itoa(firstVersion+s.updates) {
		t.Errorf("the stream stopped at %s: a handler that sleeps has blocked it", rv)
	}
	held := liveHeap() - before
	look()
	cancel()
	synctest.Wait()
	close(awake)
	wg.Wait()
	synctest.Wait()
	return held
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first collection may leave the contents of sync.Pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSleepingHandler checks that the memory for a blocked handler depends on the number of objects, not on the number
// of updates as in client-go. LARDER_SOAK=1 sends a million updates of 10,000 objects.
func TestSleepingHandler(t *testing.T) {
	s := &torrent{keys: 500, updates: 20_000}
	if os.Getenv("LARDER_SOAK") != "" {
		s = &torrent{keys: 10_000, updates: 1_000_000}
	}
	bubble(t, func(t *testing.T) {
		st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &discard})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		i, err := informer.New(s, &corev1.Pod{}, informer.Options{Store: st, Identity: podsIdentity, Logger: &discard,
			Residency: testresidency.Of(t)})
		if err != nil {
			t.Fatal(err)
		}
		var h informer.HandlerStatus
		ours := heapBehind(t, i, s, func() {
			h = i.Status().Handlers[0]
			if rv := i.Status().ResourceVersion; rv != strconv.Itoa(firstVersion+s.updates) {
				t.Errorf("stored up to %s: a handler that sleeps has blocked the loop", rv)
			}
		})
		theirs := heapBehind(t, cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, cache.Indexers{}), s, func() {})
		t.Logf(
			"%d updates of %d objects while a handler sleeps: %.1f MB of heap with %d calls pending and %d updates merged; "+
				"client-go %.1f MB",
			s.updates, s.keys, float64(ours)/1e6, h.Pending, h.Merged, float64(theirs)/1e6)
		if bound := mergeThreshold + 2*s.keys; h.Pending > bound {
			t.Errorf("%d calls are pending; the bound is %d", h.Pending, bound)
		}
		if want := s.keys + s.updates - 1; h.Pending+h.Merged != want {
			t.Errorf("%d pending and %d merged; together they must be %d", h.Pending, h.Merged, want)
		}
		if ours > theirs/4 {
			t.Errorf("ours holds %d bytes, more than a quarter of client-go's %d", ours, theirs)
		}
	})
}
