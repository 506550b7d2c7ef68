package factory

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestTypedIsOurs checks that every method returns Larder's informer for the types passed to the factory, also if a
// type is used by InformerFor only. For other types the informers are client-go's.
func TestTypedIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClients(t, pod("a", "1", "x"), pod("b", "1", "x"))
		f, err := NewSharedInformerFactory(c.typed, 0, inMemory(), &corev1.Pod{}, &corev1.ConfigMap{})
		must(t, err)
		never := func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			t.Error("client-go's informer was made")
			return nil
		}
		if inf := f.InformerFor(&corev1.ConfigMap{}, never); fmt.Sprintf("%T", inf) != "*informer.Informer" {
			t.Errorf("InformerFor: %T", inf)
		}
		ours, ok := f.InformerFor(&corev1.Pod{}, never).(*informer.Informer)
		if !ok {
			t.Fatal("not ours")
		}
		generic, err := f.ForResource(pods)
		must(t, err)
		if f.Core().V1().Pods().Informer().GetIndexer() != ours.GetIndexer() ||
			generic.Informer().GetIndexer() != ours.GetIndexer() {
			t.Error("Pods().Informer() or ForResource is another")
		}
		f.Core().V1().Secrets().Informer()
		if inf, ok := f.InformerFor(&corev1.Secret{}, never).(*informer.Informer); ok {
			t.Errorf("Secrets are not listed, but %T", inf)
		}

		h, stopCh := &recorder{}, make(chan struct{})
		reg, err := f.Core().V1().Pods().Informer().AddEventHandler(h)
		must(t, err)
		f.Start(stopCh)
		synctest.Wait()
		if !reg.HasSynced() || !ours.HasSynced() {
			t.Error("not synced")
		}
		equal(t, "handler", h.take(), []string{"add a/1=x initial=true", "add b/1=x initial=true"})
		lister := f.Core().V1().Pods().Lister()
		found, err := lister.Pods("b").List(labels.Everything())
		if err != nil || len(found) != 1 || describe(found[0]) != "b/1=x" {
			t.Errorf("%v, %v", found, err)
		}
		if one, err := lister.Pods("a").Get("1"); err != nil || describe(one) != "a/1=x" {
			t.Errorf("%v, %v", one, err)
		}
		close(stopCh)
		f.Shutdown()
	})
}

func TestTransform(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, fl := range flavors {
		o := on(t, st)
		o.Informer.TransformVersion = "2"
		o.Transform = func(obj any) (any, error) {
			m := obj.(metav1.Object)
			m.SetLabels(map[string]string{"value": "changed"})
			return obj, nil
		}
		h, f := &recorder{}, fl.ours(t, c, o)
		reg, stop := f.start(t, pods, h)
		f.waitSynced(t, reg)
		equal(t, fl.name+": handler", h.take(), []string{"add a/1=changed initial=true"})
		equal(t, fl.name+": lister", f.listed(t, pods), []string{"a/1=changed"})
		stop()
	}
	all, err := st.Collections(t.Context())
	must(t, err)
	for _, info := range all {
		if info.Attributes.Transform != "2" {
			t.Errorf("%s: transform %q", info.Identity, info.Attributes.Transform)
		}
	}
}

// TestTransformNeedsVersion checks that no object is stored untransformed. Issue 37.
func TestTransformNeedsVersion(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	o := on(t, st)
	o.Transform = func(obj any) (any, error) { return obj, nil }
	if _, err := NewSharedInformerFactory(c.typed, 0, o, &corev1.Pod{}); !errors.Is(err, informer.ErrTransformVersion) {
		t.Errorf("typed: %v", err)
	}
	dynamic := NewDynamicSharedInformerFactory(c.dynamic, 0, o)
	if _, err := informer.Of(dynamic.ForResource(pods).Informer()); !errors.Is(err, informer.ErrTransformVersion) {
		t.Errorf("dynamic: %v", err)
	}
	dynamic.Shutdown()
	generated := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithTransform(o.Transform))
	inf := generated.InformerFor(&corev1.Pod{}, func(k kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return NewInformer(k.CoreV1().RESTClient(), pods, &corev1.Pod{}, informer.Options{Store: st})
	})
	generated.StartWithContext(t.Context())
	generated.Shutdown() // Shutdown also ends the run of the informer inf
	if i, err := informer.Of(inf); err != nil || !errors.Is(i.Status().Err, informer.ErrTransformVersion) {
		t.Errorf("generated: %v", err)
	}
	all, err := st.Collections(t.Context())
	must(t, err)
	for _, info := range all {
		if info.Objects > 0 {
			t.Errorf("%s has %d objects", info.Identity, info.Objects)
		}
	}
}

func TestSecrets(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(secrets, &corev1.Secret{ObjectMeta: metaOf("a", "1", "x")}))
	for _, persist := range []bool{false, true} {
		st := openStore(t, t.TempDir())
		for _, fl := range flavors {
			o := on(t, st)
			o.Informer.PersistSecrets = persist
			f := fl.ours(t, c, o, &corev1.Secret{})
			reg, stop := f.start(t, secrets, &recorder{})
			f.waitSynced(t, reg)
			equal(t, fl.name, f.listed(t, secrets), []string{"a/1=x"})
			stop()
		}
		all, err := st.Collections(t.Context())
		must(t, err)
		if want := map[bool]int{false: 0, true: len(flavors)}[persist]; len(all) != want {
			t.Errorf("PersistSecrets %v: %d collections", persist, len(all))
		}
		closeStore(t, st)
	}
}

// TestIndexers checks that a factory does not modify the caller's indexers.
func TestIndexers(t *testing.T) {
	c := fakeClients(t)
	own := func(any) ([]string, error) { return []string{"own"}, nil }
	for _, o := range []Options{inMemory(),
		{Informer: informer.Options{InMemory: true, Indexers: cache.Indexers{"own": own}}}} {
		f, err := NewSharedInformerFactory(c.typed, 0, o, &corev1.Pod{})
		must(t, err)
		got := f.Core().V1().Pods().Informer().GetIndexer().GetIndexers()
		if len(got) != 1+len(o.Informer.Indexers) || got[cache.NamespaceIndex] == nil {
			t.Errorf("indexers %v", got)
		}
		if len(o.Informer.Indexers) > 0 && (got["own"] == nil || len(o.Informer.Indexers) != 1) {
			t.Errorf("indexers %v, the caller's %v", got, o.Informer.Indexers)
		}
		f.Shutdown()
	}
}
