package snapshot_test

import (
	"encoding/json"
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

func decoded(t testing.TB, src snapshot.Source, c snapshot.Collection) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	d := snapshot.NewDecoder(c)
	err := src.Records(t.Context(), c.Identity, func(r entry.Entry) error {
		u, err := d.Decode(r)
		if err != nil {
			return err
		}
		out[r.Key] = u.Object
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
