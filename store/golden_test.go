package store_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store"
)

var updateGolden = flag.Bool("update", false, "write the golden store of the current format anew")

// goldenLimit is the maximum size of a golden store in bytes.
const goldenLimit = 64 << 10

func goldenPath(format int) string {
	return filepath.Join("testdata", fmt.Sprintf("golden-format-%d.larder", format))
}

func goldenWidgets() (entry.Identity, store.CollectionOptions) {
	return entry.Identity{
			GroupVersionResource: schema.GroupVersionResource{Group: "larder.dev", Version: "v1", Resource: "widgets"},
			Namespace:            "shop", LabelSelector: "color=red", Representation: entry.Unstructured,
		}, store.CollectionOptions{
			Codec:    codec.Unstructured(),
			Resource: entry.ResourceInfo{Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true},
		}
}

func goldenWidget(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "larder.dev/v1", "kind": "Widget",
		"metadata": map[string]any{
			"namespace": "shop", "name": fmt.Sprintf("widget-%d", i), "uid": fmt.Sprintf("w-%d", i),
			"resourceVersion": fmt.Sprint(300 + i), "labels": map[string]any{"color": "red"},
		},
		"spec": map[string]any{"size": int64(i), "ratio": 0.5, "none": nil, "empty": []any{}, "text": "größer <&>\x00"},
	}}
}

const goldenPods, goldenWidgetCount = 12, 3

func writeGolden(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	podsOf := mustCollection(t, s, pods())
	mustList(t, podsOf, goldenPods+1)
	contact := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, err := podsOf.Apply(t.Context(), entry.Batch{
		Ops:             []entry.Op{{Type: entry.Delete, Object: somePod(goldenPods)}},
		ResourceVersion: "2000", LastContact: contact,
	})
	if err != nil {
		t.Fatal(err)
	}
	id, o := goldenWidgets()
	widgets, err := s.Collection(t.Context(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := widgets.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{ClusterID: "golden",
		OpenAPI: "hash"}})
	if err != nil {
		t.Fatal(err)
	}
	var page []runtime.Object
	for i := range goldenWidgetCount {
		page = append(page, goldenWidget(i))
	}
	if _, err := r.Page(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "400", LastContact: contact}); err != nil {
		t.Fatal(err)
	}
	mustList(t, mustCollection(t, s, otherPods()), 0)
	mustClose(t, s)

	saveGolden(t, path, goldenPath(store.FormatVersion))
}

// compact returns the path of a copy of the store without free pages.
func compact(t *testing.T, path string) string {
	t.Helper()
	from, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	to, err := bolt.Open(path+"-compact", 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bolt.Compact(to, from, 0), from.Close(), to.Close()); err != nil {
		t.Fatal(err)
	}
	return path + "-compact"
}

// used returns the offset at which the last bbolt page in use ends.
func used(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := boltcheck.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return int64(pages.HighWater) * int64(pages.PageSize)
}

// TestGolden opens a copy of the golden store of each format version and checks all its objects. The golden store of a
// released format version is never written again.
func TestGolden(t *testing.T) {
	if *updateGolden {
		writeGolden(t)
	}
	for format := 1; format <= store.FormatVersion; format++ {
		path := copyGolden(t, goldenPath(format))
		if format == store.FormatVersion {
			s := mustOpen(t, path, store.Options{ReadOnly: true})
			wantGolden(t, s)
			mustClose(t, s)
		}
		for range 2 {
			s := mustOpen(t, path, store.Options{})
			if s.Quarantined() != "" {
				t.Fatal("the golden store was moved aside")
			}
			wantGolden(t, s)
			mustClose(t, s)
		}
	}
}

func saveGolden(t *testing.T, path, golden string) {
	t.Helper()
	path = compact(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, data[:used(t, path)], 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyGolden(t *testing.T, golden string) (path string) {
	t.Helper()
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) >= goldenLimit {
		t.Errorf("%s has %d bytes", golden, len(data))
	}
	path = filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantGolden(t *testing.T, s *store.Store) {
	t.Helper()
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 || r.Collections != 3 ||
		r.Objects != goldenPods+goldenWidgetCount {
		t.Errorf("check: %+v, %v", r, err)
	}
	podsOf := mustCollection(t, s, pods())
	if n, info := count(t, podsOf); n != goldenPods || info.ResourceVersion != "2000" || !info.Complete ||
		info.MustRelist != "" || info.LastContact.Year() != 2026 {
		t.Errorf("%d pods, %+v", n, info)
	}
	for i := range goldenPods {
		want := somePod(i)
		got, err := podsOf.Get(t.Context(), want.Namespace+"/"+want.Name)
		if err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("pod %d: %v, %v", i, got, err)
		}
	}
	keys, err := podsOf.IndexKeys(t.Context(), cache.NamespaceIndex, "namespace-1")
	if err != nil || len(keys) != 3 || keys[0] != "namespace-1/pod-0001" {
		t.Errorf("index: %q, %v", keys, err)
	}

	id, o := goldenWidgets()
	widgets, err := s.Collection(t.Context(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	n, info := count(t, widgets)
	if n != goldenWidgetCount || info.ResourceVersion != "400" || info.Attributes.ClusterID != "golden" ||
		info.Resource.Kind != "Widget" {
		t.Errorf("%d widgets, %+v", n, info)
	}
	for i := range goldenWidgetCount {
		want := goldenWidget(i)
		got, err := widgets.Get(t.Context(), "shop/"+want.GetName())
		if err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("widget %d: %v, %v", i, got, err)
		}
	}
	if n, info := count(t, mustCollection(t, s, otherPods())); n != 0 || !info.Complete {
		t.Errorf("listed, and there were none: %d objects, %+v", n, info)
	}
}
