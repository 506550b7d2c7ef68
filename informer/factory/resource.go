package factory

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/entry"
)

//go:generate go run ./internal/gentable

// clientset is the typed client.
type clientset = kubernetes.Interface

// resource is a type that client-go has a typed informer for.
type resource struct {
	schema.GroupVersionResource
	example    runtime.Object
	namespaced bool
	requests   func(client clientset, namespace string) calls
}

// info returns what is known of the resource without discovery. The kind is the name of the Go type.
func (r resource) info() entry.ResourceInfo {
	return entry.ResourceInfo{Kind: reflect.TypeOf(r.example).Elem().Name(), Namespaced: r.namespaced}
}

// resourcesOf returns the resources of the example objects.
func resourcesOf(examples []runtime.Object) ([]resource, error) {
	if len(examples) == 0 {
		return nil,
			errors.New(
				"no types are listed: nothing would be stored; list an example object of each type whose informer is to be " +
					"persistent")
	}
	byType := map[reflect.Type]resource{}
	for _, r := range resources() {
		byType[reflect.TypeOf(r.example)] = r
	}
	listed := map[reflect.Type]bool{}
	var found []resource
	for _, example := range examples {
		t := reflect.TypeOf(example)
		r, ok := byType[t]
		switch {
		case !ok:
			return nil,
				fmt.Errorf("client-go has no typed informer for %T; use NewDynamicSharedInformerFactory, or informer.New", example)
		case listed[t]:
			return nil, fmt.Errorf("%T is listed twice", example)
		}
		listed[t] = true
		found = append(found, r)
	}
	return found, nil
}
