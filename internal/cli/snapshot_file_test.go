package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// written is a collection of a test snapshot, with the keys of its objects in ascending order. The spec of each object
// names its collection.
type written struct {
	snapshot.Collection
	keys []string
}

type collections struct {
	t   *testing.T
	all []written
}

func (s collections) Collections(context.Context) (all []snapshot.Collection, err error) {
	for _, c := range s.all {
		all = append(all, c.Collection)
	}
	return all, nil
}

func (s collections) Records(_ context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	i := slices.IndexFunc(s.all, func(c written) bool { return c.Identity.ID() == id.ID() })
	for _, key := range s.all[i].keys {
		if err := fn(recordOf(s.t, s.all[i].Collection, key)); err != nil {
			return err
		}
	}
	return nil
}

// writeSnapshot writes a snapshot of the collections. In a collection with typed representation only objects of
// built-in kinds can be decoded.
func writeSnapshot(t *testing.T, path string, h snapshot.Header, all ...written) {
	t.Helper()
	if _, err := snapshot.Save(t.Context(), collections{t, all}, path, snapshot.SaveOptions{Secrets: true,
		Header: h}); err != nil {
		t.Fatal(err)
	}
}

func writeSealed(t *testing.T, path string, recipient age.Recipient) {
	t.Helper()
	if _, err := snapshot.Save(t.Context(), collections{}, path,
		snapshot.SaveOptions{Recipients: []age.Recipient{recipient}}); err != nil {
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
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"of": input.ScopeOfID(c.Identity)}}}
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
