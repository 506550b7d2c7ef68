package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

func TestRefusedOptions(t *testing.T) {
	codec, err := codec.For(&corev1.Pod{})
	must(t, err)
	memory := func(change func(*informer.Options)) informer.Options {
		o := informer.Options{InMemory: true}
		change(&o)
		return o
	}
	for want, o := range map[string]informer.Options{
		"Options.Store is required":        {},
		"Options.Identity must not be set": memory(func(o *informer.Options) { o.Identity.Resource = "pods" }),
		"Options.Resource must not be set": memory(
			func(o *informer.Options) { o.Resource.ShortNames = []string{"po"} }),
		"Options.Codec must not be set": memory(func(o *informer.Options) { o.Codec = codec }),
		"set cache.Options.SyncPeriod":  memory(func(o *informer.Options) { o.ResyncPeriod = time.Second }),
		"call IndexField of the cache": memory(
			func(o *informer.Options) { o.Indexers = toolscache.Indexers{"x": nil} }),
		"Options.ObjectDescription must not be":  memory(func(o *informer.Options) { o.ObjectDescription = "x" }),
		"cache.Options.NewInformer must not be ": {InMemory: true},
	} {
		var opts cache.Options
		if strings.Contains(want, "NewInformer") {
			opts.NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration,
				toolscache.Indexers) toolscache.SharedIndexInformer {
				return nil
			}
		}
		_, err := NewCache(o)(&rest.Config{}, opts)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestTransformNeedsVersion cites issue 37.
func TestTransformNeedsVersion(t *testing.T) {
	st, _ := openStore(t, storePath(t))
	strip := cache.TransformStripManagedFields()
	for name, opts := range map[string]cache.Options{
		"DefaultTransform":  {DefaultTransform: strip},
		"DefaultNamespaces": {DefaultNamespaces: map[string]cache.Config{"a": {Transform: strip}}},
		"ByObject":          {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: strip}}},
	} {
		_, err := NewCache(informer.Options{Store: st})(&rest.Config{}, opts)
		if !errors.Is(err, ErrOptions) || !errors.Is(err, informer.ErrTransformVersion) {
			t.Errorf("%s: %v", name, err)
		}
		for _, o := range []informer.Options{{InMemory: true}, {Store: st, TransformVersion: informer.Unversioned}} {
			if err := checkTransforms(o, opts); err != nil {
				t.Errorf("%s, %+v: %v", name, o, err)
			}
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, config := range []*rest.Config{nil, {Host: "http://\x00"},
		{Host: "h", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}}} {
		if _, err := NewCache(informer.Options{InMemory: true})(config, cache.Options{}); err == nil {
			t.Errorf("%v: no error", config)
		}
	}
}

// strangeMapper is a RESTMapper that maps pods to a resource whose path is not a list's path.
type strangeMapper struct{ meta.RESTMapper }

func (m strangeMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(gk, versions...)
	if err == nil && gk.Kind == "Pod" {
		mapping.Resource.Resource = "pods/of/all"
	}
	return mapping, err
}

// TestRefusedIdentity checks that all methods of the cache fail with the reason for a refused kind, and that other
// kinds are not affected.
func TestRefusedIdentity(t *testing.T) {
	w := newWorld(t, startServer(t), persistent(t))
	w.create(cache.Options{Mapper: strangeMapper{staticMapper()}})
	w.run()
	_, fromInformer := w.GetInformer(w.ctx, &corev1.Pod{})
	_, fromKind := w.GetInformerForKind(w.ctx, podKind)
	for what, err := range map[string]error{
		"GetInformer":        fromInformer,
		"GetInformerForKind": fromKind,
		"Get":                w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, &corev1.Pod{}),
		"List":               w.List(w.ctx, &corev1.PodList{}),
		"List of metadata":   w.List(w.ctx, metadataListOf(podKind)),
		"IndexField":         w.IndexField(w.ctx, &corev1.Pod{}, "app", app),
	} {
		if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "pods/of/all") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := w.keys(&corev1.NodeList{}); got != "[/node-x /node-y]" {
		t.Errorf("nodes: %s", got)
	}
}

// TestOneStoreForTwoCaches checks that the second cache continues with the shared informers when the first has stopped.
// Issue 38.
func TestOneStoreForTwoCaches(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	newCache := persistent(t)
	first, second := newWorld(t, srv, newCache), newWorld(t, srv, newCache)
	first.create(cache.Options{})
	second.create(cache.Options{})
	first.run()
	second.run()
	for _, w := range []*world{first, second} {
		if got := w.keys(&corev1.PodList{}, client.InNamespace("b")); got != "[b/pod-3 b/pod-4]" {
			t.Error(got)
		}
	}
	second.eventually("the watch", func() bool { return srv.Counts(pods).Watches > 0 })
	if got := srv.Counts(pods); got.Lists != 1 || got.Watches != 1 {
		t.Errorf("%+v", got)
	}
	if got := second.keys(&corev1.NodeList{}); got != "[/node-x /node-y]" {
		t.Error(got)
	}
	first.stop()
	must(t, srv.Load(pods, newPod("b", "pod-9", nil, "node-x")))
	second.eventually("the new pod", func() bool {
		return second.keys(&corev1.PodList{}, client.InNamespace("b")) == "[b/pod-3 b/pod-4 b/pod-9]"
	})
	if got := srv.Counts(pods); got.Lists != 1 || got.Watches != 1 {
		t.Errorf("after the first has stopped: %+v", got)
	}
}

// TestTwoCachesWithOtherOptions checks that the error names the option in which two caches on one store differ, and the
// remedy.
func TestTwoCachesWithOtherOptions(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	st, _ := openStore(t, storePath(t))
	o := on(t, st)
	other := o
	other.TransformVersion = "2"
	first, second := newWorld(t, srv, NewCache(o)), newWorld(t, srv, NewCache(other))
	first.create(cache.Options{})
	second.create(cache.Options{})
	first.run()
	second.run()
	if got := first.keys(&corev1.PodList{}, client.InNamespace("b")); got != "[b/pod-3 b/pod-4]" {
		t.Error(got)
	}
	_, err := second.GetInformer(second.ctx, &corev1.Pod{})
	for _, want := range []string{"Options.TransformVersion", "a store.Store of its own"} {
		if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(fmt.Sprint(err), want) {
			t.Error(err)
		}
	}
	if got := second.keys(&corev1.NodeList{}); got != "[/node-x /node-y]" {
		t.Error(got)
	}
	first.stop()
	if got := second.keys(&corev1.PodList{}, client.InNamespace("b")); got != "[b/pod-3 b/pod-4]" {
		t.Errorf("after the first has stopped: %s", got)
	}
}

// TestTwoClustersOneKind checks that a cache receives no objects of a collection that another cache on the store fills
// from another cluster.
func TestTwoClustersOneKind(t *testing.T) {
	t.Parallel()
	newCache := persistent(t)
	first, second := newWorld(t, startServer(t), newCache), newWorld(t, startServer(t), newCache)
	first.create(cache.Options{})
	first.run()
	if got := first.keys(&corev1.PodList{}, client.InNamespace("b")); got != "[b/pod-3 b/pod-4]" {
		t.Error(got)
	}
	second.create(cache.Options{})
	second.run()
	inf, err := second.GetInformer(second.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	must(t, err)
	second.eventually("the status", func() bool {
		return errors.Is(inf.(*informer.Informer).Status().Err, store.ErrOtherCluster)
	})
	if inf.HasSynced() {
		t.Error("it has synced")
	}
}

// TestOneStoreForTwoClusters checks that the second cache is refused when it connects, even if the two caches share no
// kind, because addresses do not identify clusters.
func TestOneStoreForTwoClusters(t *testing.T) {
	t.Parallel()
	newCache := persistent(t)
	first, second := newWorld(t, startServer(t), newCache), newWorld(t, startServer(t), newCache)
	first.create(cache.Options{})
	_, err := first.GetInformer(first.ctx, &corev1.Pod{})
	must(t, err)
	first.run()
	errs := make(chan error, 1)
	second.create(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
		select {
		case errs <- err:
		default:
		}
	}})
	second.run()
	inf, err := second.GetInformer(second.ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	must(t, err)
	select {
	case err = <-errs:
	case <-second.ctx.Done():
	}
	if !errors.Is(err, store.ErrOtherCluster) ||
		!strings.Contains(fmt.Sprint(err), "each cluster needs a store of its own") {
		t.Error(err)
	}
	t.Log(err)
	second.eventually("the status", func() bool {
		return errors.Is(inf.(interface{ Status() informer.Status }).Status().Err, store.ErrOtherCluster)
	})
	if inf.HasSynced() || second.srv.Counts(nodes).Lists != 0 {
		t.Errorf("synced %t with %d LISTs", inf.HasSynced(), second.srv.Counts(nodes).Lists)
	}
	first.stop()
	if got := second.keys(&corev1.NodeList{}); got != "[/node-x /node-y]" {
		t.Errorf("after the first has stopped: %s", got)
	}
}

func TestClosedStore(t *testing.T) {
	st, closeStore := openStore(t, storePath(t))
	w := newWorld(t, startServer(t), NewCache(on(t, st)))
	w.create(cache.Options{})
	w.run()
	closeStore()
	if _, err := w.GetInformer(w.ctx, &corev1.Pod{}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
