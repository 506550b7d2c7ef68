package controllerruntime

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
)

// TestLists: how a cache's informers list is a matter of the server's version, which they read, and of the template.
func TestLists(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		o             informer.Options
		want          string
	}{
		{"new server", "v1.34.0", informer.Options{}, "pages"},
		{"old server", "v1.33.0", informer.Options{}, "cached"},
		{"by watch", "v1.34.0", informer.Options{UseWatchList: true}, "watch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := startServer(t)
			srv.SetVersion(tt.version)
			life(t, srv, storePath(t), tt.o, cache.Options{}, []client.Object{&corev1.Pod{}}, func(w *world, _ *events) {
				if got := w.keys(&corev1.PodList{}); got != "[a/pod-0 a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]" {
					t.Errorf("the cache has %s", got)
				}
				var got []string
				for _, r := range srv.Log() {
					switch {
					case r.Resource != "pods":
					case r.Verb == "list" && r.Query.Get("resourceVersion") == "0":
						got = append(got, "cached")
					case r.Verb == "list":
						got = append(got, "pages")
					case r.Query.Get("sendInitialEvents") == "true":
						got = append(got, "watch")
					}
				}
				if !slices.Equal(got, []string{tt.want}) {
					t.Errorf("listed by %q, want %q", got, tt.want)
				}
			})
		})
	}
}
