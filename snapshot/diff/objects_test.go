package diff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// recordOf encodes an object, given as JSON, in the representation of the collection.
func recordOf(t testing.TB, c snapshot.Collection, text string) entry.Entry {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	key := u.GetName()
	if u.GetNamespace() != "" {
		key = u.GetNamespace() + "/" + key
	}
	var obj runtime.Object = u
	if c.Identity.Representation == entry.Typed {
		typed, err := scheme.Scheme.New(u.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), typed); err != nil {
			t.Fatal(err)
		}
		// Typed clients leave apiVersion and kind empty.
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		obj = typed
	}
	codec, err := codec.For(obj)
	if err != nil {
		t.Fatal(err)
	}
	data, err := codec.Append(nil, obj)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Entry{Key: key, UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion(), Encoding: codec.Name(),
		Payload: data}
}

func collectionOf(resource schema.GroupVersionResource, kind string, r entry.Representation) snapshot.Collection {
	return snapshot.Collection{
		Identity:        entry.Identity{GroupVersionResource: resource, Representation: r},
		Resource:        entry.ResourceInfo{Kind: kind, Namespaced: kind != "Node"},
		ResourceVersion: "100", Complete: true,
	}
}

func core(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

type contentOf struct {
	collection snapshot.Collection
	records    []entry.Entry
}

type memorySource []contentOf

func (m memorySource) Collections(context.Context) (out []snapshot.Collection, err error) {
	for _, c := range m {
		of := c.collection
		// Filter.Takes trusts Resource.Namespaced only if the collection has objects.
		of.Objects = max(of.Objects, len(c.records))
		out = append(out, of)
	}
	return out, nil
}

func (m memorySource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	i := slices.IndexFunc(m, func(c contentOf) bool { return c.collection.Identity.ID() == id.ID() })
	if i < 0 {
		return fmt.Errorf("%s: %w", id, snapshot.ErrNoCollection)
	}
	for _, r := range m[i].records {
		if err := fn(r); err != nil {
			return err
		}
	}
	return ctx.Err()
}
