package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// source is what an informer lists and watches.
type source struct {
	identity entry.Identity
	example  runtime.Object
	lw       cache.ListerWatcher
}

// typedSource lists one of the core group's resources with the typed client, over protobuf.
func typedSource(t *testing.T, cfg *rest.Config, resource, ns, selector string, example runtime.Object) source {
	t.Helper()
	s, err := newTypedSource(cfg, resource, ns, selector, example)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newTypedSource(cfg *rest.Config, resource, ns, selector string, example runtime.Object) (source, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return source{}, err
	}
	return coreSource(client, resource, ns, selector, example), nil
}

// coreSource is typedSource for those who have a client.
func coreSource(client kubernetes.Interface, resource, ns, selector string, example runtime.Object) source {
	return source{
		identity: entry.Identity{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource),
			Namespace:            ns, LabelSelector: selector, Representation: entry.Typed,
		},
		example: example,
		lw: cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), resource, ns,
			func(o *metav1.ListOptions) { o.LabelSelector = selector }),
	}
}

// podSource lists the pods of a namespace.
func podSource(t *testing.T, cfg *rest.Config, ns string) source {
	t.Helper()
	return typedSource(t, cfg, "pods", ns, "", &corev1.Pod{})
}

// dynamicSource lists any resource as unstructured objects.
func dynamicSource(t *testing.T, cfg *rest.Config, gvr schema.GroupVersionResource, ns string) source {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := client.Resource(gvr).Namespace(ns)
	return source{
		identity: entry.Identity{GroupVersionResource: gvr, Namespace: ns, Representation: entry.Unstructured},
		example:  &unstructured.Unstructured{},
		lw: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return r.Watch(ctx, o)
			},
		},
	}
}
