package factory

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/informer/requests"
)

// calls has the methods of a client for one resource in one namespace, and implements requests.Client. They are the
// client's own methods, because client-go's fakes have no REST client.
type calls struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (r calls) List(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return r.list(ctx, o)
}

func (r calls) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return r.watch(ctx, o)
}

// of returns the methods of a client whose lists have the type L.
func of[L runtime.Object](client requests.Client[L]) calls {
	return calls{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: client.Watch,
	}
}
