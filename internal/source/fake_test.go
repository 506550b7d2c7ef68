package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

type holding struct{ *File }

func (holding) Audit(context.Context) ([]Audited, error) { return nil, nil }

type fakeSource struct {
	status      Status
	report      store.Report
	err         error
	collections map[string]*fakeCollection
	compacted   store.Compacted
	asked       SaveRequest
	save        func(io.Writer) error
	watch       func(ctx context.Context, q WatchQuery, fn func(Event) error) error
}

func (f *fakeSource) Status(context.Context) (Status, error)           { return f.status, f.err }
func (f *fakeSource) Check(context.Context) (store.Report, error)      { return f.report, f.err }
func (f *fakeSource) Compact(context.Context) (store.Compacted, error) { return f.compacted, f.err }
func (f *fakeSource) Rekey(context.Context, string) (store.Compacted, error) {
	return f.compacted, f.err
}
func (f *fakeSource) Audit(context.Context) ([]Audited, error) { return nil, f.err }
func (f *fakeSource) Close() error                             { return nil }

func (f *fakeSource) Save(_ context.Context, w io.Writer, r SaveRequest) error {
	f.asked = r
	return f.save(w)
}

func (f *fakeSource) Log(context.Context, LogQuery, func(Logged) error) (from time.Time, err error) {
	return from, f.err
}

func (f *fakeSource) Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error {
	return f.watch(ctx, q, fn)
}

func (f *fakeSource) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	c := f.collections[q.Collection]
	if c == nil {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	for i, u := range c.objects {
		if c.fail != nil && i == c.failAt {
			return c.fail
		}
		e, err := encode(keyOf(u), u)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

type fakeCollection struct {
	objects []*unstructured.Unstructured
	failAt  int
	fail    error
}

func newFake(objects ...*unstructured.Unstructured) *fakeCollection {
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return &fakeCollection{objects: objects}
}

func keyOf(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		return u.GetName()
	}
	return u.GetNamespace() + "/" + u.GetName()
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

func podsIn(t *testing.T, path string, pods ...*unstructured.Unstructured) (*store.Store, string) {
	t.Helper()
	st, err := store.Open(path, store.Options{})
	must(t, err)
	id := entry.Identity{GroupVersionResource: podsGVR, Representation: entry.Unstructured}
	c, err := st.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(),
		Resource: entry.ResourceInfo{Kind: "Pod", Namespaced: true}})
	must(t, err)
	batch := entry.Batch{ResourceVersion: "5"}
	for _, u := range pods {
		batch.Ops = append(batch.Ops, entry.Op{Object: u})
	}
	_, err = c.Apply(t.Context(), batch)
	must(t, err)
	return st, id.ID()
}

func collect(ctx context.Context, s Source, q Query) ([]string, error) {
	keys := []string{}
	err := s.Entries(ctx, q, func(e entry.Entry) error {
		keys = append(keys, e.Key)
		return nil
	})
	return keys, err
}
