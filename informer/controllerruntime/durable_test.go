package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// manageDurably runs a manager until its controller, which has a durable source, has reconciled the wanted pods.
func manageDurably(
	t *testing.T, srv *fakeapi.Server, path string, answer func(name string) (reconcile.Result, error), want ...string,
) {
	t.Helper()
	manageScoped(t, srv, path, cache.Options{}, answer, want...)
}

// manageScoped is manageDurably with the given options of the cache.
func manageScoped(
	t *testing.T, srv *fakeapi.Server, path string, scope cache.Options,
	answer func(name string) (reconcile.Result, error), want ...string,
) {
	t.Helper()
	st, closeStore := openStore(t, path)
	defer closeStore()
	cfg := srv.Config()
	httpClient, err := rest.HTTPClientFor(cfg)
	must(t, err)
	defer httpClient.CloseIdleConnections()
	scope.HTTPClient = httpClient
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:   NewCache(informer.Options{Store: st}),
		Cache:      scope,
		Client:     client.Options{HTTPClient: httpClient},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr(true)},
	})
	must(t, err)
	var mu sync.Mutex
	var seen []string
	durably := NewDurable("pods", mgr.GetCache(), &corev1.Pod{})
	must(t, ctrl.NewControllerManagedBy(mgr).Named("pods").WatchesRawSource(durably).Complete(durably.Reconciler(
		reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(seen, request.Name) {
				seen = append(seen, request.Name)
				slices.Sort(seen)
			}
			return answer(request.Name)
		}))))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w := &world{T: t, ctx: ctx}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		t.Logf("reconciled %q", seen)
	}()
	w.eventually("the reconciles", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(seen, want)
	})
	must(t, durably.WaitForSync(ctx))
	cached, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	must(t, err)
	if _, ok := cached.(*informer.Informer); !ok && len(scope.DefaultNamespaces) < 2 {
		t.Errorf("the informer is a %T", cached)
	}
	cancel()
	must(t, <-ended)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, want) {
		t.Errorf("reconciled %q, want %q", seen, want)
	}
}

// TestDurable checks that a restarted controller reconciles the requests that were due, and the objects that were
// changed or deleted meanwhile, and no others.
func TestDurable(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	done := func(string) (reconcile.Result, error) { return reconcile.Result{}, nil }
	manageDurably(t, srv, path, func(name string) (reconcile.Result, error) {
		switch name {
		case "pod-1":
			return reconcile.Result{}, fmt.Errorf("not yet")
		case "pod-2":
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		case "pod-3":
			return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("never"))
		}
		return done(name)
	}, "pod-0", "pod-1", "pod-2", "pod-3", "pod-4", "pod-5", "pod-6", "pod-7")
	must(t, srv.Delete(pods, "a", "pod-0"))
	must(t, srv.Load(pods, newPod("b", "new", nil, "node-y")))
	manageDurably(t, srv, path, done, "new", "pod-0", "pod-1", "pod-2")
	must(t, srv.Load(pods, newPod("b", "newer", nil, "node-y")))
	manageDurably(t, srv, path, done, "newer")
}

// TestDurableOfNamespaces checks a durable source in a cache of one, of several and of all namespaces. Issue 38.
func TestDurableOfNamespaces(t *testing.T) {
	ofA := []string{"pod-0", "pod-1", "pod-2"}
	one := map[string]cache.Config{"a": {}}
	for name, test := range map[string]struct {
		scope       cache.Options
		first, next []string
	}{
		"DefaultNamespaces": {cache.Options{DefaultNamespaces: one}, ofA, []string{"new-a", "pod-1"}},
		"ByObject": {cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: one}}}, ofA,
			[]string{"new-a", "pod-1"}},
		"AllNamespaces": {cache.Options{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {}}},
			[]string{"pod-0", "pod-1", "pod-2", "pod-3", "pod-4", "pod-5", "pod-6", "pod-7"},
			[]string{"new-a", "new-b", "pod-1"}},
		"several": {cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
			[]string{"pod-0", "pod-1", "pod-2", "pod-3", "pod-4"}, []string{"new-a", "new-b", "pod-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			srv, path := startServer(t), storePath(t)
			manageScoped(t, srv, path, test.scope, func(name string) (reconcile.Result, error) {
				if name == "pod-1" {
					return reconcile.Result{}, fmt.Errorf("not yet")
				}
				return reconcile.Result{}, nil
			}, test.first...)
			must(t, srv.Load(pods, newPod("a", "new-a", nil, "node-y")))
			must(t, srv.Load(pods, newPod("b", "new-b", nil, "node-y")))
			done := func(string) (reconcile.Result, error) { return reconcile.Result{}, nil }
			manageScoped(t, srv, path, test.scope, done, test.next...)
		})
	}
}

// TestDurableOfMany checks a durable source with more objects than the number of keys that may be due. It must sync,
// because a controller starts its workers only when its sources have synced.
func TestDurableOfMany(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	var want []string
	for n := range 8 {
		want = append(want, fmt.Sprint("pod-", n))
	}
	for n := range 1500 {
		name := fmt.Sprint("many-", n)
		must(t, srv.Load(pods, newPod("c", name, nil, "node-y")))
		want = append(want, name)
	}
	slices.Sort(want)
	manageDurably(t, srv, path, func(string) (reconcile.Result, error) { return reconcile.Result{}, nil }, want...)
}

func TestDurableStartsOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := NewDurable("pods", noInformers{}, &corev1.Pod{})
	must(t, d.Start(ctx, nil))
	if err := d.Start(ctx, nil); err == nil {
		t.Error("started twice")
	}
	if err := d.WaitForSync(t.Context()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type noInformers struct{ cache.Informers }

func (noInformers) GetInformer(
	ctx context.Context, _ client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	return nil, ctx.Err()
}
