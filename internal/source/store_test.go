package source

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

var podsGVR = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func identityOf(r entry.Representation) entry.Identity {
	return entry.Identity{GroupVersionResource: podsGVR, Representation: r}
}

func write(t *testing.T, s *store.Store, r entry.Representation, obj runtime.Object) string {
	t.Helper()
	return writeAs(t, s, identityOf(r),
		entry.ResourceInfo{Kind: "Pod", Namespaced: true}, obj)
}

func writeAs(t *testing.T, s *store.Store, id entry.Identity, r entry.ResourceInfo, obj runtime.Object) string {
	t.Helper()
	ctx := context.Background()
	codec, err := codec.For(obj)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Collection(ctx, id, store.CollectionOptions{Codec: codec, Resource: r})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list.Page(ctx, []runtime.Object{obj}); err != nil {
		t.Fatal(err)
	}
	if _, err := list.Commit(ctx, entry.Batch{ResourceVersion: "5"}); err != nil {
		t.Fatal(err)
	}
	return id.ID()
}

// TestFileReadsEveryRepresentation reads objects of every representation through File, from a store that is open for
// writing and from the file of a closed store.
func TestFileReadsEveryRepresentation(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s")
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "5",
		Labels: map[string]string{"app": "web"}}
	ids := map[entry.Representation]string{
		entry.Typed:        write(t, st, entry.Typed, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n"}}),
		entry.Metadata:     write(t, st, entry.Metadata, &metav1.PartialObjectMetadata{ObjectMeta: meta}),
		entry.Unstructured: write(t, st, entry.Unstructured, pod("a", "x", map[string]string{"app": "web"})),
	}
	read := func(src Source) {
		t.Helper()
		for r, id := range ids {
			n := 0
			c := NewCollection(entry.Info{Identity: identityOf(r), Resource: entry.ResourceInfo{Kind: "Pod"}})
			if c.ID != id {
				t.Fatal(c)
			}
			err := Objects(ctx, src, c, Query{Selector: "app=web"}, func(u *unstructured.Unstructured) error {
				n++
				if keyOf(u) != "a/x" || u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" { // typed clients omit them
					t.Errorf("%s: got %v", r, u)
				}
				if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); r == entry.Typed && node != "n" {
					t.Errorf("spec.nodeName is %q", node)
				}
				return nil
			})
			if err != nil || n != 1 {
				t.Errorf("%s: %d objects, %v", r, n, err)
			}
		}
		status, err := src.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range status.Collections {
			if c.ID != ids[entry.Representation(c.Representation)] || c.Identity().ID() != c.ID || c.Objects != 1 ||
				!c.Complete || c.ResourceVersion != "5" || c.Kind != "Pod" {
				t.Errorf("got %+v", c)
			}
		}
		if len(status.Collections) != 3 || status.Bytes == 0 || status.Store != path {
			t.Errorf("got %+v", status)
		}
		if report, err := src.Check(ctx); err != nil || report.Objects != 3 || len(report.Problems) != 0 {
			t.Errorf("check: %+v, %v", report, err)
		}
		if _, err := collect(ctx, src, Query{Collection: "none"}); !errors.Is(err, ErrNoCollection) {
			t.Errorf("got %v", err)
		}
	}
	read(NewFile(st))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := Open(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	read(src)
}

func TestOpenHeldByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, err = Open(context.Background(), path, Options{Wait: -1})
	var held *HeldError
	if !errors.As(err, &held) || !errors.Is(err, store.ErrLocked) || held.Path != path {
		t.Errorf("got %v", err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(holding{NewFile(st)}, me)
	server.Start(l)
	defer server.Close()
	src, err := Open(context.Background(), path, Options{Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if status, err := src.Status(context.Background()); err != nil || status.Sync == nil || status.Sync.PID != me.PID {
		t.Errorf("got %+v, %v", status, err)
	}
}
