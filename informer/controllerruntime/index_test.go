package controllerruntime

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// fieldIndexLife simulates one process, whose cache has the field index "by". It returns the number of calls of the
// index function.
func fieldIndexLife(w *world, by client.IndexerFunc, value, want, wantInA string) int64 {
	w.Helper()
	w.create(cache.Options{})
	var calls atomic.Int64
	must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "by", func(obj client.Object) []string {
		calls.Add(1)
		return by(obj)
	}))
	w.run()
	defer w.stop()
	if got := w.keys(&corev1.PodList{}, byField("by", value)); got != want {
		w.Errorf("by %s: %s, want %s", value, got, want)
	}
	w.eventually("look-ups that read the index", func() bool {
		before := calls.Load()
		if got := w.keys(&corev1.PodList{}, client.InNamespace("a"), byField("by", value)); got != wantInA {
			w.Fatalf("by %s in a: %s, want %s", value, got, wantInA)
		}
		return calls.Load() == before
	})
	return calls.Load()
}

// TestFieldIndexAfterRestart checks field indexes after a restart. Their functions are closures that controller-runtime
// makes in each process. So an index without a version is built again from the file, with this process's function, and
// an index with a version is read from the file. Neither causes a list. The objects are not kept in memory, where they
// would be indexed as in client-go.
func TestFieldIndexAfterRestart(t *testing.T) {
	for name, versions := range map[string]map[string]string{
		"without a version": nil,
		"with a version":    {"field:by": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, path := startServer(t), storePath(t)
			life := func(by client.IndexerFunc, value, want, wantInA string) int64 {
				st, closeStore := openStore(t, path)
				defer closeStore()
				w := newWorld(t, srv, NewCache(informer.Options{Store: st, IndexVersions: versions, Residency: store.None}))
				return fieldIndexLife(w, by, value, want, wantInA)
			}
			byApp := func() int64 { return life(app, "web", "[a/pod-0 a/pod-2 b/pod-4 c/pod-6]", "[a/pod-0 a/pod-2]") }
			byApp()
			srv.ResetCounts()
			if versions == nil {
				life(func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} },
					"node-x", "[a/pod-0 a/pod-1 a/pod-2 b/pod-3]", "[a/pod-0 a/pod-1 a/pod-2]")
			} else if calls := byApp(); calls != 0 {
				t.Errorf("the function of an index with a version was called %d times for what is stored", calls)
			}
			if n := srv.Counts(pods).Lists; n != 0 {
				t.Errorf("%d LISTs after the restart", n)
			}
		})
	}
}
