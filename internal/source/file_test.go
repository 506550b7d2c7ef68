package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

func TestEachSelects(t *testing.T) {
	web := map[string]string{"app": "web"}
	newReader := func() *fakeReader {
		return newFakeReader(pod("a", "x", web), pod("ab", "x", nil), pod("b", "x", nil), pod("b", "y", web),
			pod("c", "x", web))
	}
	for _, tc := range []struct {
		name string
		q    Query
		want []string
	}{
		{"all", Query{}, []string{"a/x", "ab/x", "b/x", "b/y", "c/x"}},
		{"a namespace that is another's prefix", Query{Namespace: "a"}, []string{"a/x"}},
		{"namespace", Query{Namespace: "b"}, []string{"b/x", "b/y"}},
		{"no such namespace", Query{Namespace: "bb"}, []string{}},
		{"name", Query{Namespace: "b", Name: "y"}, []string{"b/y"}},
		{"no such name", Query{Namespace: "b", Name: "z"}, []string{}},
		{"labels", Query{Selector: "app=web"}, []string{"a/x", "b/y", "c/x"}},
		{"label absent", Query{Namespace: "b", Selector: "!app"}, []string{"b/x"}},
		{"name and labels", Query{Namespace: "b", Name: "x", Selector: "app=web"}, []string{}},
		{"fields", Query{Fields: "metadata.name=x,spec.priority!=8"}, []string{"a/x", "ab/x", "b/x", "c/x"}},
		{"a field that is absent is empty", Query{Namespace: "b", Fields: "spec.nodeName="}, []string{"b/x", "b/y"}},
		{"a field that no object has", Query{Fields: "spec.nodName=n"}, []string{}},
		{"namespace, labels and fields", Query{Namespace: "b", Selector: "app=web", Fields: "spec.ratio=0.5"},
			[]string{"b/y"}},
		{"name and fields", Query{Namespace: "b", Name: "x", Fields: "metadata.name=y"}, []string{}},
		{"head only keeps the labels for selecting", Query{Selector: "app=web", HeadOnly: true},
			[]string{"a/x", "b/y", "c/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.q.Collection = "c"
			s := &fakeSource{collections: map[string]*fakeReader{"c": newReader()}}
			got, err := collect(context.Background(), s, tc.q)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestEachLeavesSelectingToTheStore: what is not selected is not to be decoded; where everything is, Iterate decodes on
// all cores.
func TestEachLeavesSelectingToTheStore(t *testing.T) {
	for _, q := range []Query{{}, {Namespace: "b"}, {Selector: "app=web"}, {Fields: "spec.nodeName=n"},
		{Namespace: "b", Selector: "a,!b", Fields: "c!=d"}} {
		r := newFakeReader()
		if err := Each(context.Background(), r, q, nil); err != nil {
			t.Fatal(err)
		}
		if q == (Query{}) {
			if len(r.asked) > 0 {
				t.Errorf("asked for %+v", r.asked)
			}
			continue
		}
		if len(r.asked) != 1 {
			t.Fatalf("%+v: asked %d times", q, len(r.asked))
		}
		got := Query{Namespace: r.asked[0].Namespace}
		if r.asked[0].Labels != nil {
			got.Selector = r.asked[0].Labels.String()
		}
		if r.asked[0].Fields != nil {
			got.Fields = r.asked[0].Fields.String()
		}
		if got != q {
			t.Errorf("asked for %+v, want %+v", got, q)
		}
	}
}

func TestEachRefusesABadSelector(t *testing.T) {
	for want, q := range map[string]Query{"label selector": {Selector: "a in"}, "field selector": {Fields: "a"}} {
		err := Each(context.Background(), newFakeReader(), q, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

func TestHeadOnly(t *testing.T) {
	original := pod("a", "x", map[string]string{"app": "web"})
	before := original.DeepCopy()
	var got *unstructured.Unstructured
	q := Query{Name: "x", Namespace: "a", HeadOnly: true}
	if err := Each(context.Background(), newFakeReader(original), q,
		func(u *unstructured.Unstructured) error { got = u; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"namespace": "a", "name": "x", "creationTimestamp": "2026-01-02T03:04:05Z"}}
	if d := cmp.Diff(want, got.Object); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, original); d != "" {
		t.Error("the stored object was changed", d)
	}
}

func TestDamageThatEndsACheckIsAProblem(t *testing.T) {
	damaged := fmt.Errorf("page 7: %w", entry.ErrDamaged)
	report, err := asProblem(store.Report{Objects: 3, Problems: []string{"first"}}, damaged)
	if err != nil || report.Objects != 3 || len(report.Problems) != 2 || report.Problems[1] != damaged.Error() {
		t.Errorf("got %+v, %v", report, err)
	}
	other := errors.New("the disk is gone")
	if report, err := asProblem(store.Report{}, other); !errors.Is(err, other) || len(report.Problems) != 0 {
		t.Errorf("got %+v, %v", report, err)
	}
}
