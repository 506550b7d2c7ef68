package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// ListWatch returns a ListerWatcher for New that lists what id says: resource, namespace and selectors have one source.
// client is any REST client of the cluster whose scheme knows the objects, such as clientset.CoreV1().RESTClient() for the types of
// client-go. Selectors of a request's own are added to those of id, so single objects can be looked up.
func ListWatch(client cache.Getter, id store.Identity) *cache.ListWatch {
	request := requestOf(client, id)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return request(o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}
}

// both returns a selector of what a and b select. An empty one selects everything.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// requestOf returns what makes a request for what id says.
func requestOf(client cache.Getter, id store.Identity) func(o metav1.ListOptions) *rest.Request {
	return func(o metav1.ListOptions) *rest.Request {
		o.LabelSelector = both(id.LabelSelector, o.LabelSelector)
		o.FieldSelector = both(id.FieldSelector, o.FieldSelector)
		o.ShardSelector = id.ShardSelector
		root := []string{"/apis", id.Group, id.Version}
		if id.Group == "" {
			root = []string{"/api", id.Version}
		}
		return client.Get().AbsPath(root...).Namespace(id.Namespace).Resource(id.Resource).VersionedParams(&o, metav1.ParameterCodec)
	}
}
