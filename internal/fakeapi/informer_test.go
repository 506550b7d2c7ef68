package fakeapi

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// noWatchList makes a client-go reflector list, instead of requesting the initial events with its watch.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func podListWatch(client kubernetes.Interface, traits any) cache.ListerWatcher {
	pods := client.CoreV1().Pods("")
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object,
			error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}, traits)
}

// TestInformer checks that client-go's own informer survives the faults of API servers.
func TestInformer(t *testing.T) {
	for name, c := range map[string]struct {
		traits func(kubernetes.Interface) any
		lists  int
	}{
		"WatchList": {traits: func(client kubernetes.Interface) any { return client }, lists: 0},
		"List":      {traits: func(kubernetes.Interface) any { return noWatchList{} }, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{})
			load(t, s, 1200)
			client := typed(t, s, contentProtobuf)
			informer := cache.NewSharedIndexInformer(podListWatch(client, c.traits(client)), &corev1.Pod{}, 0, cache.Indexers{})
			events := make(chan string, 10_000)
			var adds atomic.Int64
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
				AddFunc: func(obj any, initial bool) {
					if adds.Add(1); !initial {
						events <- "add " + obj.(*corev1.Pod).Name
					}
				},
				UpdateFunc: func(_, obj any) { events <- "update " + obj.(*corev1.Pod).Name },
				DeleteFunc: func(obj any) {
					if pod, ok := obj.(*corev1.Pod); ok {
						events <- "delete " + pod.Name
					} else {
						events <- "lost " + obj.(cache.DeletedFinalStateUnknown).Key
					}
				},
			})
			must(t, err)
			ctx := testContext(t)
			next := func(want string) {
				t.Helper()
				select {
				case got := <-events:
					if got != want {
						t.Fatalf("the handler received %q, not %q", got, want)
					}
				case <-ctx.Done():
					t.Fatalf("the handler did not receive %q", want)
				}
			}
			runCtx, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() { defer close(done); informer.RunWithContext(runCtx) }()
			defer func() { stop(); <-done }()
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("not synced")
			}
			if n := len(informer.GetStore().ListKeys()); n != 1200 {
				t.Errorf("%d objects, not 1200", n)
			}
			waitWatches(t, s, 1) // client-go opens its watch after the informer has synced
			// client-go's first list is at resourceVersion "0", in one page. Only a list at resourceVersion "" has pages of 500.
			if got := s.Counts(podsGVR); got.Lists != c.lists || got.Watches != 1 {
				t.Errorf("counts: %+v", got)
			}
			must(t, s.Load(podsGVR, pod("default", "x", nil)))
			_, err = s.Update(podsGVR, pod("default", "x", map[string]string{"a": "b"}))
			must(t, err)
			must(t, s.Delete(podsGVR, "default", "x"))
			next("add x")
			next("update x")
			next("delete x")

			s.BreakWatches(podsGVR, BreakReset)
			must(t, s.Load(podsGVR, pod("default", "y", nil)))
			next("add y")

			// The restarted server has no watch history, so client-go finds the deletion by a relist.
			s.Stop()
			must(t, s.Delete(podsGVR, "default", "pod-00007"))
			s.Compact()
			must(t, s.Start())
			next("lost default/pod-00007")
		})
	}
}
