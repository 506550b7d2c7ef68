package e2e

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// source describes a collection, and how a client lists and watches it.
type source struct {
	identity entry.Identity
	example  runtime.Object
	lw       cache.ListerWatcher
}

// typedSource returns the identity of a collection in the core group, and the ListerWatcher of the typed client over
// protobuf.
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

func coreSource(client kubernetes.Interface, resource, ns, selector string, example runtime.Object) source {
	id := entry.Identity{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource),
		Namespace:            ns, LabelSelector: selector, Representation: entry.Typed,
	}
	return source{id, example, listWatch(requests.ListWatch(client.CoreV1().RESTClient(), id))}
}

// listWatch returns lw, whose answers an informer decodes itself. With LARDER_TEST_SOURCE=objects, it returns a
// ListerWatcher of objects decoded by client-go.
func listWatch(lw *requests.RESTListWatch) cache.ListerWatcher {
	if os.Getenv("LARDER_TEST_SOURCE") == "objects" {
		return lw.ListWatch
	}
	return lw
}

func podSource(t *testing.T, cfg *rest.Config, ns string) source {
	t.Helper()
	return typedSource(t, cfg, "pods", ns, "", &corev1.Pod{})
}

func dynamicSource(t *testing.T, cfg *rest.Config, gvr schema.GroupVersionResource, ns string) source {
	t.Helper()
	return untypedSource(t, cfg, entry.Identity{
		GroupVersionResource: gvr, Namespace: ns, Representation: entry.Unstructured,
	})
}

// untypedSource returns the identity of a collection, and a ListerWatcher of unstructured objects or of metadata.
func untypedSource(t *testing.T, cfg *rest.Config, id entry.Identity) source {
	t.Helper()
	if id.Representation == entry.Metadata {
		client, err := metadata.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		lw := requests.ClientListWatch(client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
		return answered(t, metadata.ConfigFor(cfg), source{id, &metav1.PartialObjectMetadata{}, lw})
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lw := requests.ClientListWatch(client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
	return answered(t, dynamic.ConfigFor(cfg), source{id, &unstructured.Unstructured{}, lw})
}

// answered returns src with requests that a REST client of cfg sends. The informer then decodes the answers itself.
func answered(t *testing.T, cfg *rest.Config, src source) source {
	t.Helper()
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request := func(o metav1.ListOptions) *rest.Request { return requests.Request(client, src.identity, o) }
	src.lw = listWatch(requests.WithRequest(src.lw.(*cache.ListWatch), request))
	return src
}
