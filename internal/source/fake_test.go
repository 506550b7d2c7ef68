package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// fakeSource is a Source on fakeReaders.
type fakeSource struct {
	status      Status
	report      store.Report
	err         error
	collections map[string]*fakeReader
	compacted   store.Compacted
	closed      bool
}

func (f *fakeSource) Status(context.Context) (Status, error)      { return f.status, f.err }
func (f *fakeSource) Check(context.Context) (store.Report, error) { return f.report, f.err }
func (f *fakeSource) Compact(context.Context) (store.Compacted, error) {
	return f.compacted, f.err
}
func (f *fakeSource) Close() error { f.closed = true; return nil }

func (f *fakeSource) Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error {
	r := f.collections[q.Collection]
	if r == nil {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	return Each(ctx, r, q, fn)
}

// fakeReader is a Reader on a slice. failAt makes it fail before the object of that number.
type fakeReader struct {
	objects []*unstructured.Unstructured
	failAt  int
	fail    error
	visited int
	// asked are the queries that Each got.
	asked []store.Query
	// damaged are keys that cannot be read.
	damaged []string
}

func keyOf(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		return u.GetName()
	}
	return u.GetNamespace() + "/" + u.GetName()
}

func newFakeReader(objects ...*unstructured.Unstructured) *fakeReader {
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return &fakeReader{objects: objects}
}

func (f *fakeReader) Get(_ context.Context, key string) (runtime.Object, error) {
	if slices.Contains(f.damaged, key) {
		return nil, fmt.Errorf("record %q: %w", key, entry.ErrDamaged)
	}
	for _, u := range f.objects {
		if keyOf(u) == key {
			return u, nil
		}
	}
	return nil, nil
}

func (f *fakeReader) Keys(context.Context) ([]string, error) {
	var keys []string
	for _, u := range f.objects {
		keys = append(keys, keyOf(u))
	}
	return keys, nil
}

func (f *fakeReader) Iterate(ctx context.Context, after string, fn func(string, runtime.Object) error) error {
	for i, u := range f.objects {
		if keyOf(u) <= after {
			continue
		}
		if slices.Contains(f.damaged, keyOf(u)) {
			return fmt.Errorf("a page: %w", entry.ErrDamaged)
		}
		if f.fail != nil && i == f.failAt {
			return f.fail
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.visited++
		if err := fn(keyOf(u), u); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeReader) Each(ctx context.Context, q store.Query, fn func(string, runtime.Object) error) error {
	f.asked = append(f.asked, q)
	return f.Iterate(ctx, q.After, func(key string, obj runtime.Object) error {
		if selected, err := q.Matches(obj); !selected {
			return err
		}
		return fn(key, obj)
	})
}

func pod(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"creationTimestamp": "2026-01-02T03:04:05Z"},
		"spec":     map[string]any{"priority": int64(7), "ratio": 0.5, "text": "<&>\u2028", "none": nil, "empty": []any{}},
	}}
	u.SetNamespace(namespace)
	u.SetName(name)
	if labels != nil {
		u.SetLabels(labels)
	}
	return u
}

// collect returns the keys that a query gives.
func collect(ctx context.Context, s Source, q Query) ([]string, error) {
	keys := []string{}
	err := s.Objects(ctx, q, func(u *unstructured.Unstructured) error {
		keys = append(keys, keyOf(u))
		return nil
	})
	return keys, err
}
