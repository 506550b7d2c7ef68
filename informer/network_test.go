package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// TestOverTheNetwork checks the main case with real HTTP: a list, changes while no informer runs, a resume without a
// list, an expired watch, and client-go's factory and lister.
func TestOverTheNetwork(t *testing.T) {
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	defer api.Stop()
	pod := func(n int, value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%02d", n),
			Labels: map[string]string{"value": value}}}
	}
	for n := range 30 {
		must(t)(api.Create(podsResource, pod(n, "old")))
	}
	path := filepath.Join(t.TempDir(), "larder.db")

	first := runOnNetwork(t, api, path)
	if c := api.Counts(podsResource); c.Lists == 0 || c.ListedObjects < 30 {
		t.Errorf("cold start: %+v", c)
	}
	if got := len(first.handler.take()); got != 30 {
		t.Errorf("cold start: %d calls, want 30", got)
	}
	first.stop()

	for n := range 5 {
		must(t)(api.Update(podsResource, pod(n, "new")))
		must(t)(api.Create(podsResource, pod(30+n, "new")))
		if err := api.Delete(podsResource, "default", fmt.Sprintf("p%02d", 10+n)); err != nil {
			t.Fatal(err)
		}
	}
	api.ResetCounts()
	second := runOnNetwork(t, api, path)
	known := map[string]string{}
	lines := second.handler.take()
	replay(t, known, lines)
	if c := api.Counts(podsResource); c.Lists != 0 || len(lines) != 30+15 || len(known) != 30 {
		t.Errorf("resume: %d calls, %d objects, %+v, requests %q", len(lines), len(known), c, api.Requests())
	}
	live, stopWaiting := context.WithTimeout(t.Context(), time.Minute)
	defer stopWaiting()
	// Status.Source becomes Live just after HasSynced.
	for second.i.Status().Source != informer.Live && live.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if s := second.i.Status(); s.Source != informer.Live || s.Reflector.Resumes == 0 {
		t.Errorf("resume: %+v", s)
	}
	pods, err := second.factory.Core().V1().Pods().Lister().Pods("default").List(
		labels.SelectorFromSet(labels.Set{"value": "new"}))
	if err != nil || len(pods) != 10 {
		t.Errorf("lister of the factory: %d pods, %v", len(pods), err)
	}
	second.stop()

	must(t)(api.Update(podsResource, pod(20, "newest")))
	if err := api.Restart(); err != nil {
		t.Fatal(err)
	}
	third := runOnNetwork(t, api, path)
	lines = third.handler.take()
	if len(lines) != 30+1 {
		t.Errorf("relist: %d calls, want those of the replay and one: %q", len(lines), lines)
	}
	if n, err := strconv.Atoi(third.i.LastSyncResourceVersion()); err != nil || n == 0 {
		t.Errorf("LastSyncResourceVersion %q", third.i.LastSyncResourceVersion())
	}
	third.stop()
}

func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

type networkRun struct {
	i       *informer.Informer
	handler *recorder
	factory informers.SharedInformerFactory
	stop    func()
}

// runOnNetwork starts an informer through client-go's factory and returns when its handler has synced.
func runOnNetwork(t *testing.T, api *fakeapi.Server, path string) *networkRun {
	t.Helper()
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := logr.Discard()
	r := &networkRun{handler: &recorder{}, factory: informers.NewSharedInformerFactory(client, 0)}
	build := func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		rc := client.CoreV1().RESTClient()
		lw := cache.NewListWatchFromClient(rc, "pods", metav1.NamespaceAll, fields.Everything())
		i, err := informer.New(lw, &corev1.Pod{}, informer.Options{
			Store: st, Identity: podsIdentity, Logger: &quiet, PageSize: 7, Residency: testresidency.Of(t),
			Indexers:  cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			ClusterID: requests.KubeSystemUID(rc), OpenAPIHash: requests.OpenAPIHash(rc, corev1.SchemeGroupVersion),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.i = i
		return i
	}
	reg, err := r.factory.InformerFor(&corev1.Pod{}, build).AddEventHandler(r.handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.factory.StartWithContext(ctx)
	r.stop = func() {
		cancel()
		r.factory.Shutdown()
		if report, err := st.Check(context.Background()); err != nil || len(report.Problems) > 0 {
			t.Errorf("Check: %v, %q", err, report.Problems)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-reg.HasSyncedChecker().Done():
	case <-time.After(time.Minute):
		r.stop()
		t.Fatalf("not synced: %+v", r.i.Status())
	}
	return r
}
