package factory

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// generated returns client-go's factory, which stands for the factory of a generated clientset. Its InformerFor uses
// NewInformer for the pods of one namespace.
func generated(t *testing.T, c clients, st *store.Store) (subject, *informer.Informer) {
	t.Helper()
	f := informers.NewSharedInformerFactory(c.typed, time.Hour)
	inf := f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		o := on(t, st).Informer
		o.ResyncPeriod, o.Identity = resync, entry.Identity{Namespace: "a"}
		return NewInformer(client.CoreV1().RESTClient(), pods, &corev1.Pod{}, o)
	})
	ours, err := informer.Of(inf)
	must(t, err)
	forResource := func(gvr schema.GroupVersionResource) informers.GenericInformer {
		g, err := f.ForResource(gvr)
		must(t, err)
		return g
	}
	synced := func(stop <-chan struct{}) (all []bool) {
		for _, ok := range f.WaitForCacheSync(stop) {
			all = append(all, ok)
		}
		return all
	}
	return subject{f, forResource, synced}, ours
}

// TestGenerated checks that the informer notices all kinds of change, has the index of its lister, and resumes after a
// restart.
func TestGenerated(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	s.SetOpenAPIHash(pods.GroupVersion(), "HASH")
	must(t, s.Load(pods, pod("a", "1", "x"), pod("a", "2", "x"), pod("b", "1", "x")))
	dir := t.TempDir()
	run := func(want ...string) {
		t.Helper()
		st := openStore(t, dir)
		defer closeStore(t, st)
		f, ours := generated(t, c, st)
		h := &recorder{}
		reg, stop := f.start(t, pods, h)
		defer stop()
		f.waitSynced(t, reg)
		equal(t, "handler", h.take(), want)
		if obj, err := f.forResource(pods).Lister().ByNamespace("a").Get("1"); err != nil || describe(obj) != "a/1=x" {
			t.Errorf("lister: %v, %v", obj, err)
		}
		if status := ours.Status(); len(status.Unguarded) > 0 || !status.Undecoded {
			t.Errorf("unguarded: %q, undecoded: %v", status.Unguarded, status.Undecoded)
		}
	}
	run("add a/1=x initial=true", "add a/2=x initial=true")
	if got := s.Counts(pods); got.Lists != 1 {
		t.Errorf("cold start: %+v", got)
	}
	must(t, s.Delete(pods, "a", "2"))
	s.ResetCounts()
	run("add a/1=x initial=true", "add a/2=x initial=true", "delete a/2=x")
	if got := s.Counts(pods); got.Lists != 0 || got.Watches == 0 {
		t.Errorf("restart: %+v", got)
	}
}

func TestGeneratedRefused(t *testing.T) {
	_, c := startServer(t, fakeapi.Options{})
	real := c.typed.CoreV1().RESTClient()
	hash := func(context.Context) (string, error) { return "", nil }
	for _, x := range []struct {
		name   string
		client rest.Interface
		o      informer.Options
		want   string
	}{
		{"a fake", fake.NewClientset().CoreV1().RESTClient(), informer.Options{InMemory: true}, "requests.ClientListWatch"},
		{"no store", real, informer.Options{}, "Store"},
		{"a resource", real, informer.Options{InMemory: true, Identity: entry.Identity{GroupVersionResource: pods}},
			"GroupVersionResource"},
		{"a hash", real, informer.Options{InMemory: true, OpenAPIHash: hash}, "OpenAPIHash"},
	} {
		_, err := NewInformer(x.client, pods, &corev1.Pod{}, x.o).AddEventHandler(&recorder{})
		if err == nil || !strings.Contains(err.Error(), "informer of pods: ") || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
