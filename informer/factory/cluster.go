package factory

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"

	"github.com/larder-dev/larder/informer/requests"
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// clusterID returns a function for informer.Options.ClusterID that reads the UID of kube-system with get. It returns
// nil for client-go's fakes: they have no cluster, and tests compare their requests.
func clusterID(
	client any, get func(ctx context.Context, name string) (metav1.Object, error),
) func(context.Context) (string, error) {
	if watchlist.DoesClientNotSupportWatchListSemantics(client) {
		return nil
	}
	return requests.ClusterID(func(ctx context.Context) (string, error) {
		ns, err := get(ctx, metav1.NamespaceSystem)
		if err != nil {
			return "", err
		}
		return string(ns.GetUID()), nil
	})
}

// schemas returns the reader of schema hashes that all informers of a factory share; nil if there is no client.
func schemas(client rest.Interface) *requests.Schemas {
	if missing(client) {
		return nil
	}
	return requests.NewSchemas(client)
}

// missing reports whether there is no client. The fakes return nil pointers as REST clients.
func missing(client rest.Interface) bool {
	v := reflect.ValueOf(client)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
