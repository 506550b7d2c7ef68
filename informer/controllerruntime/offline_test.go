package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/mapper"
	"github.com/larder-dev/larder/internal/fakeapi"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

type deputy struct {
	client.Reader
	mu   sync.Mutex
	seen map[string]bool
}

func (d *deputy) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var onNode corev1.PodList
	if err := d.List(ctx, &onNode, client.MatchingFields{"spec.nodeName": "node-x"}); err != nil {
		return reconcile.Result{}, err
	}
	found := "not there"
	var deployment appsv1.Deployment
	switch err := d.Get(ctx, request.NamespacedName, &deployment); {
	case err == nil:
		found = deployment.Annotations["note"]
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[fmt.Sprintf("%s: %s", request, found)] = true
	d.seen[fmt.Sprintf("node-x has %d", len(onNode.Items))] = true
	return reconcile.Result{}, nil
}

func (d *deputy) lacks(want ...string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return d.seen[line] })
}

// offlineManager is a manager as in the package's documentation, in two namespaces, with options by object, an index,
// owner references and metadata.
type offlineManager struct {
	*world
	ctrl.Manager
	*deputy
	stop func()
}

func startOffline(t *testing.T, srv *fakeapi.Server, path string) *offlineManager {
	t.Helper()
	st, closeStore := openStore(t, path)
	cfg := srv.Config()
	httpClient, err := rest.HTTPClientFor(cfg)
	must(t, err)
	o := on(t, st)
	o.PersistSecrets, o.SyncPolicy = true, informer.Disk
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:       NewCache(o),
		MapperProvider: MapperProvider(st),
		Cache: cache.Options{
			HTTPClient: httpClient, DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}},
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Transform: cache.TransformStripManagedFields()}, &corev1.Node{}: {},
			},
		},
		Client:     client.Options{HTTPClient: httpClient},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr(true)},
	})
	must(t, err)
	d := &deputy{Reader: mgr.GetClient(), seen: map[string]bool{}}
	must(t, mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", node))
	ofSecret := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: secret.GetNamespace(),
			Name: "of-" + secret.GetName()}}}
	})
	must(t, ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.Secret{}, ofSecret, builder.OnlyMetadata).Complete(d))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return &offlineManager{world: &world{T: t, srv: srv, ctx: ctx}, Manager: mgr, deputy: d, stop: func() {
		cancel()
		must(t, <-ended)
		httpClient.CloseIdleConnections()
		closeStore()
	}}
}

func (m *offlineManager) reconciles(want ...string) {
	m.Helper()
	deadline := time.Now().Add(50 * time.Second)
	for missing := m.lacks(want...); len(missing) > 0; missing = m.lacks(missing...) {
		if time.Now().After(deadline) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.Fatalf("it lacks %q and saw %q", missing, slices.Sorted(maps.Keys(m.seen)))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func ownedBy(namespace, name, deployment string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: objectMeta(namespace, name, nil)}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment, UID: "uid",
		Controller: ptr(true)}}
	return c
}

// TestManagerOffline checks that a manager that has run once starts without an API server and reconciles the stored
// objects, also by owner references. When the server is back, nothing is listed if it still has the events since then;
// otherwise each stored collection is listed once.
func TestManagerOffline(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("history kept %t", kept), func(t *testing.T) {
			srv, path := startServer(t), storePath(t)
			must(t, srv.Load(configMaps, ownedBy("b", "settings", "ghost")))
			m := startOffline(t, srv, path)
			stored := []string{"node-x has 4", "a/shop: from a", "a/of-key: not there", "b/ghost: not there"}
			m.reconciles(stored...)
			m.stop()

			annotate(t, srv, deployments, "a/shop", "changed")
			must(t, srv.Delete(pods, "a", "pod-0"))
			must(t, srv.Load(configMaps, ownedBy("a", "new", "unheard-of")))
			must(t, srv.Load(deployments, &appsv1.Deployment{ObjectMeta: objectMeta("b", "more", nil)}))
			srv.Stop()
			srv.ResetCounts()
			if !kept {
				srv.Compact()
			}

			m = startOffline(t, srv, path)
			m.reconciles(stored...)
			if s := m.GetRESTMapper().(*mapper.Mapper).Status(); !s.Stored || s.AsOf.IsZero() {
				t.Errorf("%+v", s)
			}
			must(t, srv.Start())
			m.reconciles("a/shop: changed", "a/unheard-of: not there", "b/more: from b")
			m.eventually("the index is as it should be", func() bool {
				var onNode corev1.PodList
				must(t, m.GetClient().List(m.ctx, &onNode, client.MatchingFields{"spec.nodeName": "node-x"}))
				return len(onNode.Items) == 3
			})
			want := 0
			if !kept {
				want = 8 // four kinds in two namespaces are listed
			}
			m.eventually("the lists", func() bool { return len(listsBegun(t, srv)) >= want })
			m.stop()
			lists := listsBegun(t, srv)
			if len(lists) != want {
				t.Errorf("lists: %v", lists)
			}
			for path, n := range lists {
				if n != 1 {
					t.Errorf("%d lists of %s", n, path)
				}
			}
		})
	}
}

// listsBegun returns the number of lists by request path. It fails the test if a list is not paged.
func listsBegun(t *testing.T, srv *fakeapi.Server) map[string]int {
	t.Helper()
	lists := map[string]int{}
	for _, r := range srv.Log() {
		switch {
		case r.Query.Get("sendInitialEvents") != "":
			t.Errorf("a list by watch: %+v", r)
		case r.Verb != "list":
		case r.Query.Get("limit") == "" || r.Query.Get("resourceVersion") != "":
			t.Errorf("a list that is no page: %+v", r)
		case r.Query.Get("continue") == "":
			lists[r.Path]++
		}
	}
	return lists
}

// TestUnknownKindOffline checks that an unknown kind is not reported as missing while the server is unreachable.
func TestUnknownKindOffline(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	m := startOffline(t, srv, path)
	m.reconciles("a/shop: from a")
	m.eventually("discovery is stored", func() bool { return m.GetRESTMapper().(*mapper.Mapper).Status().Stored })
	m.stop()
	srv.Stop()

	m = startOffline(t, srv, path)
	m.reconciles("a/shop: from a")
	unknown := unstructuredOf(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"})
	if _, err := m.GetCache().GetInformer(m.ctx, unknown); !errors.Is(err, mapper.ErrUnreachable) {
		t.Errorf("a kind that nobody knows: %v", err)
	}
	ctx, cancel := context.WithTimeout(m.ctx, 50*time.Millisecond)
	defer cancel()
	if err := m.GetCache().Get(ctx, client.ObjectKey{Namespace: "a", Name: "w-1"},
		unstructuredOf(widgetKind)); !apierrors.IsTimeout(err) {
		t.Errorf("a kind that was never listed: %v", err)
	}
	var list corev1.PodList
	if err := m.GetClient().List(m.ctx, &list); err != nil || len(list.Items) != 5 {
		t.Errorf("%d pods, %v", len(list.Items), err)
	}
	must(t, srv.Start())
	m.eventually("widgets are listed", func() bool {
		return m.GetCache().Get(m.ctx, client.ObjectKey{Namespace: "a", Name: "w-1"}, unstructuredOf(widgetKind)) == nil
	})
	m.stop()
}
