package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// everySource stores pods and returns Sources of all three types that read them: File, Client and Snapshot. id is the
// collection.
func everySource(t *testing.T, pods ...*unstructured.Unstructured) (all []Source, id string) {
	t.Helper()
	st, id := podsIn(t, filepath.Join(t.TempDir(), "s.db"), pods...)
	file := NewFile(st)
	t.Cleanup(func() { _ = file.Close() })
	client, _ := serve(t, holding{file})
	saved := filepath.Join(t.TempDir(), "s.larder")
	_, err := snapshot.SaveStore(t.Context(), st, saved, snapshot.SaveOptions{})
	must(t, err)
	return []Source{file, client, openSource(t, saved, Options{})}, id
}

func TestEverySourceSelects(t *testing.T) {
	web := map[string]string{"app": "web"}
	all, id := everySource(t, identified(pod("a", "x", web)), identified(pod("ab", "x", nil)),
		identified(pod("b", "x", nil)), identified(pod("b", "y", web)), identified(pod("c", "x", web)))
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
		{"keys", Query{KeysOnly: true, Namespace: "b"}, []string{"b/x", "b/y"}},
		{"keys of what a selector selects", Query{KeysOnly: true, Selector: "app=web"}, []string{"a/x", "b/y", "c/x"}},
	} {
		tc.q.Collection = id
		for _, src := range all {
			got := []string{}
			err := src.Entries(t.Context(), tc.q, func(e entry.Entry) error {
				if got = append(got, e.Key); tc.q.KeysOnly != (len(e.Payload) == 0) {
					t.Errorf("%s, %T: %s has %d bytes", tc.name, src, e.Key, len(e.Payload))
				}
				return nil
			})
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%s, %T: %s, %v", tc.name, src, d, err)
			}
		}
	}
	for want, q := range map[string]Query{"label selector": {Selector: "a in"}, "field selector": {Fields: "a"}} {
		q.Collection = id
		for _, src := range all {
			if _, err := collect(t.Context(), src, q); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%T: %v", src, err)
			}
		}
	}
}

func TestObjects(t *testing.T) {
	var pods []*unstructured.Unstructured
	var want []string
	for i := range 3*batchEntries + 1 {
		u := identified(pod("a", fmt.Sprintf("p%04d", i), nil))
		pods, want = append(pods, u), append(want, keyOf(u))
	}
	all, id := everySource(t, pods...)
	c := Collection{ID: id, Version: "v1", Resource: "pods", Kind: "Pod", Representation: string(entry.Unstructured)}
	for _, src := range all {
		var got []string
		err := Objects(t.Context(), src, c, Query{}, func(u *unstructured.Unstructured) error {
			if d := cmp.Diff(pods[len(got)], u); d != "" {
				t.Fatalf("%T: %s", src, d)
			}
			got = append(got, keyOf(u))
			return nil
		})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%T: %s, %v", src, d, err)
		}
		n, stop := 0, errors.New("no paper")
		err = Objects(t.Context(), src, c, Query{}, func(*unstructured.Unstructured) error { n++; return stop })
		if n != 1 || !errors.Is(err, stop) {
			t.Errorf("%T: %d objects, %v", src, n, err)
		}
		err = Objects(t.Context(), src, c, Query{KeysOnly: true, Name: "p0001", Namespace: "a"},
			func(u *unstructured.Unstructured) error {
				if keyOf(u) != "a/p0001" || u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" || len(u.Object) != 3 {
					t.Errorf("%T: of a key alone came %v", src, u)
				}
				return nil
			})
		must(t, err)
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
