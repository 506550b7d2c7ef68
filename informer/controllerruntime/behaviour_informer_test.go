package controllerruntime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/internal/fakeapi"
)

var informers = map[string]behaviour{
	"RemoveInformer": {
		opts: cache.Options{ReaderFailOnMissingInformer: true},
		run: func(w *world) []string {
			w.run()
			var before, after events
			inf, err := w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			addHandler(w, inf, &before)
			must(w.T, w.RemoveInformer(w.ctx, &corev1.Pod{}))
			must(w.T, w.RemoveInformer(w.ctx, &corev1.Node{}))
			w.eventually("its end", inf.IsStopped)
			out := []string{w.keys(&corev1.PodList{})}
			must(w.T, w.srv.Delete(pods, "a", "pod-0"))
			inf, err = w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			addHandler(w, inf, &after)
			annotate(w.T, w.srv, pods, "a/pod-1", "changed")
			w.eventually("the change", func() bool { return after.len() == 8 })
			out = append(out, w.keys(&corev1.PodList{}, client.InNamespace("a")))
			out = append(out, fmt.Sprint(before.len()))
			return append(out, slices.DeleteFunc(after.take(),
				func(line string) bool { return strings.HasPrefix(line, "add") })...)
		},
		want: []string{"error: /v1, Kind=Pod is not cached", "[a/pod-1 a/pod-2]", "8", "update a/pod-1 from a to changed"},
	},
	"RemoveInformer before the start": {
		run: func(w *world) []string {
			var removed, kept events
			inf, err := w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			_, err = inf.AddEventHandler(&removed)
			must(w.T, err)
			must(w.T, w.RemoveInformer(w.ctx, &corev1.Pod{}))
			inf, err = w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			_, err = inf.AddEventHandler(&kept)
			must(w.T, err)
			w.run()
			w.eventually("the pods", func() bool { return kept.len() == 8 })
			return []string{fmt.Sprint(removed.len()), w.keys(&corev1.PodList{}, client.InNamespace("a"))}
		},
		want: []string{"0", "[a/pod-0 a/pod-1 a/pod-2]"},
	},
	"handlers": {
		run: func(w *world) []string {
			var all events
			inf, err := w.GetInformerForKind(w.ctx, podKind)
			must(w.T, err)
			registration, err := inf.AddEventHandler(&all)
			must(w.T, err)
			early := fmt.Sprint(inf.HasSynced(), registration.HasSynced(), inf.IsStopped())
			w.run()
			<-registration.HasSyncedChecker().Done()
			out := append([]string{early}, all.take()...)
			must(w.T, w.srv.Delete(pods, "a", "pod-0"))
			annotate(w.T, w.srv, pods, "a/pod-1", "changed")
			must(w.T, w.srv.Load(pods, newPod("a", "new", nil, "node-x")))
			w.eventually("three events", func() bool { return all.len() == 3 })
			out = append(out, all.take()...)
			var late events
			addHandler(w, inf, &late)
			out = append(out, late.take()...)
			must(w.T, inf.RemoveEventHandler(registration))
			must(w.T, w.srv.Delete(pods, "a", "new"))
			w.eventually("the delete", func() bool { return late.len() == 1 })
			w.stop()
			return append(out, fmt.Sprint(all.len(), late.take(), inf.HasSynced(), inf.IsStopped()))
		},
	},
	"handlers over namespaces": {
		opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
		run: func(w *world) []string {
			w.run()
			var all events
			inf, err := w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			addHandler(w, inf, &all)
			must(w.T, w.srv.Delete(pods, "c", "pod-5"))
			must(w.T, w.srv.Delete(pods, "b", "pod-3"))
			w.eventually("the delete", func() bool { return all.len() == 6 })
			return all.take()
		},
		want: []string{
			"add a/pod-0 initial=true", "add a/pod-1 initial=true", "add a/pod-2 initial=true",
			"add b/pod-3 initial=true", "add b/pod-4 initial=true", "delete b/pod-3",
		},
	},
	"SyncPeriod": {
		opts: cache.Options{SyncPeriod: ptr(time.Second)},
		run: func(w *world) []string {
			w.run()
			var all events
			inf, err := w.GetInformer(w.ctx, &corev1.Node{})
			must(w.T, err)
			addHandler(w, inf, &all)
			all.take()
			w.eventually("a resync", func() bool { return all.len() == 2 })
			return all.take()
		},
		want: []string{"update /node-x from  to from ", "update /node-y from  to from "},
	},
	"BlockUntilSynced": {
		run: func(w *world) []string {
			w.run()
			release := w.srv.InjectFault(fakeapi.Fault{Resource: "pods", Status: 503,
				Reason: string(metav1.StatusReasonServiceUnavailable)})
			inf, err := w.GetInformer(w.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
			must(w.T, err)
			early := inf.HasSynced()
			ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
			defer cancel()
			_, err = w.GetInformer(ctx, &corev1.Pod{})
			release()
			w.eventually("the sync", inf.HasSynced)
			return []string{fmt.Sprint(early, apierrors.IsTimeout(err))}
		},
		want: []string{"false true"},
	},
}

// addHandler adds a handler to the informer and waits until the handler has synced.
func addHandler(w *world, inf cache.Informer, handler toolscache.ResourceEventHandler) {
	w.Helper()
	registration, err := inf.AddEventHandler(handler)
	must(w.T, err)
	w.eventually("the handler's sync", registration.HasSynced)
}
