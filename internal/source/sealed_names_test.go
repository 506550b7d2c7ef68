package source

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// TestNamesOfSealedAndDamagedObjects checks that the names of all objects are readable without a key, even if some
// objects are sealed or damaged.
func TestNamesOfSealedAndDamagedObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	id := entry.Identity{GroupVersionResource: podsGVR, Representation: entry.Unstructured}
	put := func(o store.Options, rv string, objects ...runtime.Object) {
		t.Helper()
		s, err := store.Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(),
			Resource: entry.ResourceInfo{Kind: "Pod", Namespaced: true}})
		if err != nil {
			t.Fatal(err)
		}
		batch := entry.Batch{ResourceVersion: rv}
		for _, obj := range objects {
			batch.Ops = append(batch.Ops, entry.Op{Object: obj})
		}
		if _, err := c.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(store.Options{}, "5", pod("a", "0", nil), pod("a", "1", nil), pod("a", "2", nil))
	text, err := seal.GenerateKey("k")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := seal.ParseKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	put(store.Options{Encryption: &seal.Encryption{Keys: keys, Resources: []schema.GroupResource{{Resource: "pods"}}}},
		"6", pod("b", "0", nil))
	flip(t, path, id.ID(), "a/1")

	s, err := store.Open(path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	src := NewFile(s)
	defer func() { _ = src.Close() }()
	got, err := collect(t.Context(), src, Query{Collection: id.ID(), KeysOnly: true})
	if want := []string{"a/0", "a/1", "a/2", "b/0"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := collect(t.Context(), src, Query{Collection: id.ID()}); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("objects without the key: %v", err)
	}
}
