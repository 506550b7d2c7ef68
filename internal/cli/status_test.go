package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/store"
)

// TestStatusOfHandlers: whoever has forgotten a durable handler finds the name that keeps tombstones.
func TestStatusOfHandlers(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := store.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Representation: store.Unstructured}
	c, err := s.Collection(ctx, id, store.CollectionOptions{Codec: store.UnstructuredCodec()})
	if err != nil {
		t.Fatal(err)
	}
	mail, err := c.Feed(ctx, "mail")
	if err != nil {
		t.Fatal(err)
	}
	if err := mail.Acknowledge(store.Place{Failing: map[string]uint64{"a/x": 1}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Feed(ctx, "audit"); err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "a", "name": "x", "uid": "u", "resourceVersion": "7"}}}
	if _, err := c.Apply(ctx, store.Batch{ResourceVersion: "7", Ops: []store.Op{{Type: store.Upsert, Object: pod}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runStatus(ctx, IO{Out: &out, Err: &out, Now: time.Now}, &fromFlag{path: path}, "table"); err != nil {
		t.Fatal(err)
	}
	_, handlers, _ := bytes.Cut(out.Bytes(), []byte("HANDLER"))
	want := `   RESOURCE   SCOPE   BEHIND       FAILING
audit     pods       all     everything   0
mail      pods       all     1            1
`
	if d := cmp.Diff(want, string(handlers)); d != "" {
		t.Errorf("%s\n%s", d, out.String())
	}
}
