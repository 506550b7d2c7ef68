package field

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// buffered is an API server with one pod behind a proxy. The proxy withholds the events of a watch until the watch
// ends, and then sends or drops them.
type buffered struct {
	drops bool

	mu  sync.Mutex
	rv  int // mu guards rv and log
	log []watch.Event
}

func (b *buffered) write() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rv++
	kind := watch.Modified
	if b.rv == 1 {
		kind = watch.Added
	}
	p := pod("a", "x", fmt.Sprint(b.rv), "")
	p.UID, p.ResourceVersion = types.UID("u"), fmt.Sprint(b.rv)
	b.log = append(b.log, watch.Event{Type: kind, Object: p})
}

func (b *buffered) list(_ context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.log[len(b.log)-1].Object.(*corev1.Pod)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(b.rv)}, Items: []corev1.Pod{*last}}, nil
}

func (b *buffered) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var from int
	if _, err := fmt.Sscan(o.ResourceVersion, &from); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1000})
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(*o.TimeoutSeconds) * time.Second):
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, e := range b.log[from:] {
				if !b.drops {
					out.Action(e.Type, e.Object.DeepCopyObject())
				}
			}
		}
		out.Stop()
	}()
	return out, nil
}

// TestProxyThatBuffers covers charmed-kubernetes/bundle#172 and kubernetes#11678: a proxy buffers the events of a
// watch. Each change must reach the handler within eleven minutes, although the proxy withholds the event of the
// change.
func TestProxyThatBuffers(t *testing.T) {
	for _, drops := range []bool{false, true} {
		t.Run(fmt.Sprintf("drops %v", drops), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &buffered{drops: drops}
				server.write()
				quiet := logr.Discard()
				st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &quiet})
				if err != nil {
					t.Fatal(err)
				}
				lw := &cache.ListWatch{ListWithContextFunc: server.list, WatchFuncWithContext: server.watch}
				i, err := informer.New(lw, &corev1.Pod{}, informer.Options{
					Store: st, Identity: entry.Identity{GroupVersionResource: pods}, Logger: &quiet})
				if err != nil {
					t.Fatal(err)
				}
				calls := &calls{}
				if _, err := i.AddEventHandler(calls); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { i.RunWithContext(ctx) })
				for range 3 {
					time.Sleep(time.Minute)
					server.write()
					began, want := time.Now(), fmt.Sprintf("update a/x=%d", server.rv)
					for !calls.has(want) && time.Since(began) < time.Hour {
						time.Sleep(time.Second)
					}
					if d := time.Since(began); d > 11*time.Minute {
						t.Errorf("%s after %v: %+v", want, d, i.Status())
					} else {
						t.Logf("%s after %v: %v", want, d, i.Status().Reflector)
					}
				}
				cancel()
				wg.Wait()
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
