package factory

import (
	"maps"
	"reflect"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// eachFactory runs fn for each of client-go's factories and each of Larder's, with fake clients and fake time.
func eachFactory(t *testing.T, fn func(t *testing.T, f subject, w podWriter)) {
	for _, fl := range flavors {
		for name, build := range map[string]func(t *testing.T, c clients) subject{
			"stock": func(_ *testing.T, c clients) subject { return fl.stock(c, Options{}) },
			"ours":  func(t *testing.T, c clients) subject { return fl.ours(t, c, inMemory()) },
		} {
			t.Run(fl.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := fakeClients(t, pod("a", "1", "x"))
					fn(t, build(t, c), c.writer(t.Context(), fl.name))
				})
			})
		}
	}
}

// TestStartTwice checks that a second Start starts only informers made since the first.
func TestStartTwice(t *testing.T) {
	eachFactory(t, func(t *testing.T, f subject, w podWriter) {
		h := &recorder{}
		reg, stop := f.start(t, pods, h)
		again := make(chan struct{})
		f.Start(again)
		f.waitSynced(t, reg)
		equal(t, "handler", h.take(), []string{"add a/1=x initial=true"})
		late := f.informer(configMaps)
		if f.informer(configMaps).GetStore() != late.GetStore() || late.HasSynced() {
			t.Error("ForResource made two, or one that has synced")
		}
		if synced := f.synced(again); len(synced) != 1 {
			t.Errorf("waited for what has not been started: %v", synced)
		}
		f.Start(again)
		f.waitSynced(t, reg)
		if synced := f.synced(again); len(synced) != 2 || !late.HasSynced() {
			t.Errorf("after another Start: %v", synced)
		}
		close(again)
		synctest.Wait()
		must(t, w.create(pod("a", "2", "x")))
		synctest.Wait()
		equal(t, "the first goes on", h.take(), []string{"add a/2=x initial=false"})
		if !late.IsStopped() {
			t.Error("the late one goes on")
		}
		stop()
	})
}

// TestShutdownWaits checks that Shutdown waits for informers and running handlers, and that no informer starts after
// it.
func TestShutdownWaits(t *testing.T) {
	eachFactory(t, func(t *testing.T, f subject, _ podWriter) {
		busy, stopCh := make(chan struct{}), make(chan struct{})
		if _, err := f.informer(pods).AddEventHandler(
			cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-busy }}); err != nil {
			t.Fatal(err)
		}
		f.Start(stopCh)
		synctest.Wait()
		shut := make(chan struct{})
		for range 2 {
			go func() { f.Shutdown(); shut <- struct{}{} }()
		}
		synctest.Wait()
		close(stopCh)
		synctest.Wait()
		select {
		case <-shut:
			t.Fatal("did not wait for the handler")
		default:
		}
		close(busy)
		<-shut
		<-shut
		f.Start(stopCh)
		f.Shutdown()
		equal(t, "lister", f.listed(t, pods), []string{"a/1=x"})
	})
}

// TestWaitForCacheSync checks that the result has client-go's keys, and is false if the channel closes first.
func TestWaitForCacheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClients(t)
		typed, err := NewSharedInformerFactory(c.typed, 0, inMemory(), &corev1.Pod{}, &corev1.ConfigMap{})
		must(t, err)
		dynamic, metadata := NewDynamicSharedInformerFactory(c.dynamic, 0, inMemory()),
			NewMetadataSharedInformerFactory(c.metadata, 0, inMemory())
		byType := map[reflect.Type]bool{reflect.TypeFor[*corev1.Pod](): true, reflect.TypeFor[*corev1.ConfigMap](): true,
			reflect.TypeFor[*corev1.Secret](): true}
		byResource := map[schema.GroupVersionResource]bool{pods: true, configMaps: true}
		typed.Core().V1().Secrets().Informer()
		for gvr := range byResource {
			dynamic.ForResource(gvr)
			metadata.ForResource(gvr)
		}
		stopCh, never := make(chan struct{}), make(chan struct{})
		for _, f := range []factory{typed, dynamic, metadata} {
			f.Start(stopCh)
		}
		if got := typed.WaitForCacheSync(never); !maps.Equal(got, byType) {
			t.Errorf("typed: %v", got)
		}
		for _, f := range []interface {
			WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
		}{dynamic, metadata} {
			if got := f.WaitForCacheSync(never); !maps.Equal(got, byResource) {
				t.Errorf("%v", got)
			}
		}
		close(stopCh)
		for _, f := range []factory{typed, dynamic, metadata} {
			f.Shutdown()
		}
	})
}
