package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// written is a collection of a snapshot that a test writes, with the keys of its objects in ascending order. Their spec
// says which collection they are of.
type written struct {
	snapshot.Collection
	keys []string
}

// writeSnapshot writes a snapshot of the collections. Objects of typed collections cannot be decoded, unless
// Kubernetes has their kind.
func writeSnapshot(t *testing.T, path string, h snapshot.Header, all ...written) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := snapshot.NewWriter(f, h, snapshot.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		err := w.Begin(c.Collection)
		for _, key := range c.keys {
			err = errors.Join(err, w.Add(recordOf(t, c.Collection, key)))
		}
		if err := errors.Join(err, w.End()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func recordOf(t *testing.T, c snapshot.Collection, key string) entry.Entry {
	t.Helper()
	if c.Identity.Representation == entry.Typed {
		return entry.Entry{Key: key, Encoding: "protobuf", Payload: []byte("k8s\x00")}
	}
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"of": scopeOfID(c.Identity)}}}
	u.SetGroupVersionKind(c.Identity.GroupVersion().WithKind(c.Resource.Kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	codec := codec.Unstructured()
	payload, err := codec.Append(nil, u)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Entry{Key: key, Encoding: codec.Name(), Payload: payload}
}
