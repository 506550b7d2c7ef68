package factory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// typedListWatch returns the ListerWatcher for id. It uses client's REST client or, with a fake clientset, actions.
func typedListWatch(client kubernetes.Interface, r resource, id entry.Identity) (cache.ListerWatcher, error) {
	if rest := client.CoreV1().RESTClient(); !missing(rest) {
		return requests.ListWatch(rest, id), nil
	}
	fake, ok := client.(clientsetFake)
	if !ok {
		return nil, fmt.Errorf("%T has no REST client", client)
	}
	return requests.ClientListWatch(fakeClient{fake, r, id.Namespace}, id), nil
}

// clientsetFake is implemented by every fake clientset of client-go.
type clientsetFake interface {
	Invokes(action testing.Action, defaultReturnObj runtime.Object) (runtime.Object, error)
	InvokesWatch(action testing.Action) (watch.Interface, error)
}

// fakeClient lists and watches like a fake clientset's client of one type. It implements requests.Client.
type fakeClient struct {
	clientsetFake
	resource
	namespace string
}

func (c fakeClient) List(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	kind := c.GroupVersion().WithKind(c.Kind)
	list, err := scheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, err = c.Invokes(testing.NewListActionWithOptions(c.GroupVersionResource, kind, c.namespace, o), list)
	if err != nil || o.LabelSelector == "" {
		return list, err
	}
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	var selected []runtime.Object
	for _, obj := range all {
		if acc, err := meta.Accessor(obj); err == nil && selector.Matches(labels.Set(acc.GetLabels())) {
			selected = append(selected, obj)
		}
	}
	return list, meta.SetList(list, selected)
}

func (c fakeClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.InvokesWatch(testing.NewWatchActionWithOptions(c.GroupVersionResource, c.namespace, o))
}
