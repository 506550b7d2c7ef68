package serving

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/store"
)

func side(t *testing.T, name, path, value string, objects int) *compare.Side {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), path), store.Options{})
	check(t, err)
	src := source.NewFile(st)
	t.Cleanup(func() { check(t, src.Close()) })
	for resource, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"} {
		id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: resource},
			Representation: entry.Unstructured}
		c, err := st.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(),
			Resource: entry.ResourceInfo{Kind: kind, Namespaced: true}})
		check(t, err)
		var all []runtime.Object
		for i := range objects {
			all = append(all, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind,
				"data": map[string]any{"a": value},
				"metadata": map[string]any{"namespace": "n", "name": fmt.Sprintf("x%04d", i), "uid": fmt.Sprint(i),
					"resourceVersion": "1", "managedFields": []any{map[string]any{"manager": "m"}}}}})
		}
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		check(t, err)
		_, err = r.Page(t.Context(), all)
		check(t, err)
		_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})
		check(t, err)
	}
	check(t, st.Flush(t.Context()))
	status, err := src.Status(t.Context())
	check(t, err)
	return compare.NewSide(name, path, src, status, false)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestComparedSecrets(t *testing.T) {
	const before, after = "c2VjcmV0LWJlZm9yZQ==", "c2VjcmV0LWFmdGVy"
	for _, secrets := range []bool{false, true} {
		a, b := side(t, "A", "a.db", before, 1), side(t, "B", "b.db", after, 1)
		c := NewCompared(a, b, secrets)
		got, err := c.compare(context.Background())
		check(t, err)
		want := 1
		if secrets {
			want = 2
		}
		if got.Changed != want || len(got.Changes) != want {
			t.Fatalf("secrets %t: %+v", secrets, got)
		}
		for _, one := range got.Changes {
			text := fmt.Sprint(one.Fields)
			if one.Resource == "secrets" && (strings.Contains(text, "c2VjcmV0") || !strings.Contains(text, "***")) {
				t.Errorf("a Secret is shown: %s", text)
			}
			if one.Resource == "configmaps" && (!strings.Contains(text, before) || !strings.Contains(text, after)) {
				t.Errorf("a ConfigMap is not shown: %s", text)
			}
		}
		const note = "secrets of a.db are compared with --serve-secrets only"
		if noted := strings.Contains(fmt.Sprint(got.Notes), note); noted == secrets {
			t.Errorf("secrets %t: the notes are %q", secrets, got.Notes)
		}
		ref := page.Ref{Version: "v1", Resource: "secrets", Namespace: "n", Name: "x0000"}
		if x, y, err := c.sides(t.Context(), ref); !errors.Is(err, page.ErrNotFound) {
			t.Errorf("secrets %t: the whole Secret is shown: %q %q %v", secrets, x, y, err)
		}
		ref.Resource = "configmaps"
		x, y, err := c.sides(t.Context(), ref)
		check(t, err)
		if !strings.Contains(x, before) || !strings.Contains(y, after) || strings.Contains(x+y, "managedFields") {
			t.Errorf("the whole ConfigMap is %q and %q", x, y)
		}
		if _, _, err := c.sides(t.Context(), page.Ref{Version: "v1", Resource: "configmaps", Namespace: "n", Name: "no"}); !errors.Is(err, page.ErrNotFound) {
			t.Errorf("what is not there: %v", err)
		}
	}
}

func TestComparedIsBounded(t *testing.T) {
	const objects = mostDifferences + 7
	c := NewCompared(side(t, "A", "a.db", "before", objects), side(t, "B", "b.db", "after", objects), false)
	got, err := c.compare(t.Context())
	check(t, err)
	if len(got.Changes) != mostDifferences || got.Left != 7 || got.Changed != objects {
		t.Errorf("%d changes, %d left, %d counted", len(got.Changes), got.Left, got.Changed)
	}
	if long := joined(strings.Split(strings.Repeat("x\n", mostFieldLines+9), "\n")); !strings.HasSuffix(long, "x\n… 10 more lines") {
		t.Errorf("a long value ends with %q", long[len(long)-30:])
	}
}
