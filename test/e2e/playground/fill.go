package playground

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// world holds the objects that Fill creates, in order.
//
//go:embed world.yaml
var world []byte

const servedWithin = time.Minute

// Fill creates the playground's objects on an API server without them. It returns the number of objects by kind.
func Fill(ctx context.Context, config *rest.Config) (map[string]int, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	f := &filler{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))}
	made := map[string]int{}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(world), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := documents.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return made, nil
		case err != nil:
			return nil, err
		}
		if err := f.make(ctx, u); err != nil {
			return nil, fmt.Errorf("making the %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
		made[u.GetKind()]++
	}
}

type filler struct {
	client *dynamic.DynamicClient
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// make creates an object with its status. It first waits until the object's kind is served.
func (f *filler) make(ctx context.Context, u *unstructured.Unstructured) error {
	var notServed error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, servedWithin, true,
		func(ctx context.Context) (bool, error) {
			err := f.create(ctx, u)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				f.mapper.Reset()
				notServed = err
				return false, nil
			}
			return err == nil, err
		})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return notServed
	}
	return err
}

func (f *filler) create(ctx context.Context, u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind()
	mapping, err := f.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	client := dynamic.ResourceInterface(f.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = f.client.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	created, err := client.Create(ctx, u, metav1.CreateOptions{})
	status, has := u.Object["status"]
	if err != nil || !has {
		return err
	}
	created.Object["status"] = status
	_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}
