package controllerruntime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/larder-dev/larder/internal/fakeapi"
)

type reconciler struct {
	client.Reader
	mu sync.Mutex
	// seen has each request, with the number of pods that the index returns for the node, or with the error.
	seen map[string]bool
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	found := ""
	if err := r.Get(ctx, request.NamespacedName, pod); err != nil {
		found = err.Error()
	} else {
		var list corev1.PodList
		if err := r.List(ctx, &list, client.MatchingFields{"spec.nodeName": pod.Spec.NodeName}); err != nil {
			return reconcile.Result{}, err
		}
		found = fmt.Sprintf("%s has %d", pod.Spec.NodeName, len(list.Items))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[request.String()+": "+found] = true
	return reconcile.Result{}, nil
}

func (r *reconciler) saw() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.seen))
}

// manage runs a manager until done returns true. The manager has Larder's cache, a reconciler of pods with a field
// index, and a watch on the metadata of Secrets.
func manage(t *testing.T, srv *fakeapi.Server, path string, done func(r *reconciler) bool) {
	t.Helper()
	st, closeStore := openStore(t, path)
	defer closeStore()
	cfg := srv.Config()
	httpClient, err := rest.HTTPClientFor(cfg)
	must(t, err)
	defer httpClient.CloseIdleConnections()
	o := on(t, st)
	o.PersistSecrets = true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:   NewCache(o),
		Cache:      cache.Options{HTTPClient: httpClient, DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
		Client:     client.Options{HTTPClient: httpClient},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr(true)},
	})
	must(t, err)
	r := &reconciler{Reader: mgr.GetClient(), seen: map[string]bool{}}
	must(t, mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", node))
	toPod := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: secret.GetNamespace(),
			Name: "of-" + secret.GetName()}}}
	})
	must(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).
		WatchesMetadata(&corev1.Secret{}, toPod, builder.OnlyMetadata).Complete(r))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer func() {
		if t.Failed() {
			t.Logf("reconciled %q", r.saw())
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w := &world{T: t, ctx: ctx}
	w.eventually("the reconciles", func() bool { return done(r) })
	cancel()
	must(t, <-ended)
}

// TestManager checks that a restarted manager lists nothing, and that no reconciler reads a stale state. As with
// controller-runtime's own cache, objects that were deleted meanwhile are not reconciled: controllers add their
// handlers to informers that have synced.
func TestManager(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	expect := func(want ...string) func(*reconciler) bool {
		return func(r *reconciler) bool { return slices.Equal(r.saw(), want) }
	}
	manage(t, srv, path, expect(
		"a/of-key: Pod \"of-key\" not found",
		"a/pod-0: node-x has 4", "a/pod-1: node-x has 4", "a/pod-2: node-x has 4", "b/pod-3: node-x has 4",
		"b/pod-4: node-y has 1"))
	must(t, srv.Delete(pods, "a", "pod-0"))
	must(t, srv.Load(pods, newPod("b", "new", nil, "node-y")))
	must(t, srv.Delete(secrets, "a", "key"))
	annotate(t, srv, nodes, "/node-x", "changed")
	srv.ResetCounts()
	manage(t, srv, path, expect(
		"a/pod-1: node-x has 3", "a/pod-2: node-x has 3", "b/new: node-y has 2", "b/pod-3: node-x has 3",
		"b/pod-4: node-y has 2"))
	if c := srv.Counts(pods); c.Lists != 0 {
		t.Errorf("%d LISTs of pods after the restart", c.Lists)
	}
	if c := srv.Counts(secrets); c.Lists != 0 {
		t.Errorf("%d LISTs of secrets after the restart", c.Lists)
	}
}

func TestTwoClusters(t *testing.T) {
	var infos []string
	for _, label := range []string{"one", "two"} {
		srv := startServer(t)
		must(t, srv.Load(pods, newPod("z", "of-"+label, nil, "")))
		st, _ := openStore(t, storePath(t))
		cfg := srv.Config()
		httpClient, err := rest.HTTPClientFor(cfg)
		must(t, err)
		t.Cleanup(httpClient.CloseIdleConnections)
		cl, err := cluster.New(cfg, func(o *cluster.Options) {
			o.HTTPClient = httpClient
			o.NewCache = NewCache(on(t, st))
		})
		must(t, err)
		w := newWorld(t, srv, nil)
		w.Cache = cl.GetCache()
		w.run()
		if got := w.keys(&corev1.PodList{}, client.InNamespace("z")); got != "[z/of-"+label+"]" {
			t.Error(got)
		}
		collections, err := st.Collections(t.Context())
		must(t, err)
		for _, info := range collections {
			infos = append(infos, info.Attributes.ClusterID)
		}
	}
	if len(infos) != 2 || infos[0] == infos[1] || infos[0] == "" {
		t.Errorf("clusters %q", infos)
	}
}
