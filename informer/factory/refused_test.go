package factory

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// otherwise returns options for the store that differ from the options of all other factories in the test.
func otherwise(t *testing.T, st *store.Store) Options {
	o := on(t, st)
	o.Informer.TransformVersion = "other"
	return o
}

// TestTypedInUse checks that a factory that fails, because a type is open with other options, leaves the collections of
// its other types free, as does Shutdown of a factory that was never started.
func TestTypedInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClients(t)
		st := openStore(t, t.TempDir())
		defer closeStore(t, st)
		first, err := NewSharedInformerFactory(c.typed, 0, on(t, st), &appsv1.Deployment{})
		must(t, err)
		_, err = NewSharedInformerFactory(c.typed, 0, otherwise(t, st), &corev1.Pod{}, &appsv1.Deployment{})
		want :=
			"shared informer factory: informer on deployments.apps: " +
				"the collection is open by another informer, and they cannot share it: " +
				"Options.TransformVersion is \"\" there, and \"other\" here; set the same, or end that informer first"
		if !errors.Is(err, store.ErrCollectionOpen) || err.Error() != want {
			t.Errorf("%v", err)
		}
		begun := time.Now()
		second, err := NewSharedInformerFactory(c.typed, 0, on(t, st), &corev1.Pod{})
		if err != nil || time.Since(begun) > 0 {
			t.Fatalf("the failed factory holds pods: %v", err)
		}
		first.Shutdown()
		second.Shutdown()
		third, err := NewSharedInformerFactory(c.typed, 0, on(t, st), &corev1.Pod{}, &appsv1.Deployment{})
		must(t, err)
		third.Shutdown()
	})
}

// TestUntypedInUse checks that all results of ForResource fail with the reason, and that WaitForCacheSync does not
// succeed.
func TestUntypedInUse(t *testing.T) {
	for _, fl := range []flavor{dynamicFlavor, metadataFlavor} {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClients(t, pod("a", "1", "x"))
			st := openStore(t, t.TempDir())
			defer closeStore(t, st)
			first, f := fl.ours(t, c, on(t, st)), fl.ours(t, c, otherwise(t, st))
			first.informer(pods)
			refused := f.forResource(pods)
			_, handlerErr := refused.Informer().AddEventHandler(&recorder{})
			_, listErr := refused.Lister().List(labels.Everything())
			_, getErr := refused.Lister().Get("1")
			_, inErr := refused.Lister().ByNamespace("a").List(labels.Everything())
			for _, err := range []error{handlerErr, listErr, getErr, inErr} {
				if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(err.Error(), "Options.TransformVersion is") {
					t.Errorf("%v", err)
				}
			}
			stopCh := make(chan struct{})
			f.Start(stopCh)
			timeout := make(chan struct{})
			time.AfterFunc(time.Minute, func() { close(timeout) })
			if synced := f.synced(timeout); len(synced) != 1 || synced[0] {
				t.Errorf("WaitForCacheSync: %v", synced)
			}
			if again := f.forResource(pods); again != refused {
				t.Error("refused twice")
			}
			first.Shutdown()
			close(stopCh)
			f.Shutdown()
		})
	}
}

func TestAfterShutdown(t *testing.T) {
	for _, fl := range []flavor{dynamicFlavor, metadataFlavor} {
		synctest.Test(t, func(t *testing.T) {
			c := fakeClients(t)
			st := openStore(t, t.TempDir())
			defer closeStore(t, st)
			f := fl.ours(t, c, on(t, st))
			known := f.forResource(pods)
			f.Shutdown()
			if f.forResource(pods) != known {
				t.Error("ForResource made another")
			}
			if _, err := f.informer(configMaps).AddEventHandler(&recorder{}); !errors.Is(err, errShutDown) {
				t.Errorf("%v", err)
			}
			next := fl.ours(t, c, on(t, st))
			if _, err := next.informer(pods).AddEventHandler(&recorder{}); err != nil {
				t.Errorf("the collection was not given back: %v", err)
			}
			next.Shutdown()
		})
	}
}

func TestOptionsThatCanNotHold(t *testing.T) {
	c := fakeClients(t)
	codec, err := codec.For(&corev1.Pod{})
	must(t, err)
	for want, set := range map[string]func(*informer.Options){
		"Identity":          func(o *informer.Options) { o.Identity.Namespace = "a" },
		"Resource":          func(o *informer.Options) { o.Resource.ShortNames = []string{"po"} },
		"ResyncPeriod":      func(o *informer.Options) { o.ResyncPeriod = time.Minute },
		"Codec":             func(o *informer.Options) { o.Codec = codec },
		"ObjectDescription": func(o *informer.Options) { o.ObjectDescription = "pods" },
		"OpenAPIHash":       func(o *informer.Options) { o.OpenAPIHash = requests.OpenAPIHash(nil, pods.GroupVersion()) },
	} {
		o := inMemory()
		set(&o.Informer)
		_, typed := NewSharedInformerFactory(c.typed, 0, o, &corev1.Pod{})
		_, dynamic := NewDynamicSharedInformerFactory(c.dynamic, 0,
			o).ForResource(pods).Informer().AddEventHandler(&recorder{})
		for _, err := range []error{typed, dynamic} {
			if err == nil || !strings.Contains(err.Error(), "Options.Informer."+want+" must be empty") {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
	for want, types := range map[string][]runtime.Object{"no types": nil, "twice": {&corev1.Pod{}, &corev1.Pod{}}} {
		if _, err := NewSharedInformerFactory(c.typed, 0, inMemory(), types...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, o := range map[string]Options{
		"no store":   {},
		"SyncPolicy": {Informer: informer.Options{InMemory: true, SyncPolicy: "never"}},
		"selector": {Informer: inMemory().Informer,
			TweakListOptions: func(o *metav1.ListOptions) { o.LabelSelector = "a in" }},
		"CustomResync": {Informer: inMemory().Informer, CustomResync: map[metav1.Object]time.Duration{&corev1.Pod{}: 1}},
	} {
		if err := cacheErr(NewMetadataSharedInformerFactory(c.metadata, 0, o).ForResource(pods).Informer()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func cacheErr(i cache.SharedIndexInformer) error {
	_, err := informer.Of(i)
	return err
}
