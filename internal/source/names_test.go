package source

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

func TestDescribe(t *testing.T) {
	core := func(resource string) entry.Identity {
		return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: resource}}
	}
	custom := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "widgets"}}
	ofOne := core("configmaps")
	ofOne.Namespace = "a"
	for _, tc := range []struct {
		name   string
		info   entry.Info
		want   entry.ResourceInfo
		surely bool
	}{
		{"nothing is told", entry.Info{Identity: core("configmaps")},
			entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true}, false},
		{"the collection of a namespace", entry.Info{Identity: ofOne},
			entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true}, true},
		{"a key with a namespace, a kind from a program", entry.Info{
			Identity: core("configmaps"), Resource: entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap"},
			Newest: []entry.ObjectRef{{Key: "a/x"}}},
			entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true}, true},
		{"a key without", entry.Info{Identity: core("nodes"), Newest: []entry.ObjectRef{{Key: "n"}}},
			entry.ResourceInfo{Kind: "Node", Singular: "node", ShortNames: []string{"no"}}, true},
		{"a kind from a program, and no objects",
			entry.Info{Identity: core("configmaps"), Resource: entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap"}},
			entry.ResourceInfo{Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true}, false},
		{"objects of which no key has told of a namespace",
			entry.Info{Identity: custom, Objects: 3, Resource: entry.ResourceInfo{Kind: "Widget", Singular: "wi"}},
			entry.ResourceInfo{Kind: "Widget", Singular: "wi"}, true},
		{"a plural that is like the singular", entry.Info{Identity: core("endpoints"),
			Newest: []entry.ObjectRef{{Key: "a/x"}}},
			entry.ResourceInfo{Kind: "Endpoints", Singular: "endpoints", ShortNames: []string{"ep"}, Namespaced: true}, true},
		{"not Kubernetes' own", entry.Info{Identity: custom}, entry.ResourceInfo{Namespaced: true}, false},
		{"what the server has told", entry.Info{Identity: custom,
			Resource: entry.ResourceInfo{Kind: "Widget", Singular: "wi", ShortNames: []string{"wd"}}},
			entry.ResourceInfo{Kind: "Widget", Singular: "wi", ShortNames: []string{"wd"}}, true},
	} {
		got, surely := describe(tc.info)
		if d := cmp.Diff(tc.want, got); d != "" || surely != tc.surely {
			t.Errorf("%s: surely %v: %s", tc.name, surely, d)
		}
	}
}

// TestTypedWithoutNames checks that objects of built-in kinds are readable if a Go program has stored them without a
// description of their resource. For other Go types the error explains why the objects are not readable.
func TestTypedWithoutNames(t *testing.T) {
	ctx := context.Background()
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src := NewFile(st)
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "5"}}
	known := writeAs(t, st, entry.Identity{GroupVersionResource: podsGVR, Representation: entry.Typed},
		entry.ResourceInfo{}, obj)
	objects := func(id string) (n int, err error) {
		st, err := src.Status(ctx)
		must(t, err)
		c := st.Collections[slices.IndexFunc(st.Collections, func(c Collection) bool { return c.ID == id })]
		err = Objects(ctx, src, c, Query{}, func(*unstructured.Unstructured) error { n++; return nil })
		return n, err
	}
	if n, err := objects(known); err != nil || n != 1 {
		t.Errorf("got %d, %v", n, err)
	}
	other := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	unknown := writeAs(t, st, entry.Identity{GroupVersionResource: other, Representation: entry.Typed},
		entry.ResourceInfo{}, obj)
	_, err = objects(unknown)
	if !errors.Is(err, entry.ErrIncompatible) ||
		!strings.HasPrefix(err.Error(), "the store does not tell the kind of its widgets.example.com, ") {
		t.Errorf("got %v", err)
	}
}
