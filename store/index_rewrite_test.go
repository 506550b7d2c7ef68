package store_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestIndexDuringARewritingList checks that ByIndex and Get agree at the end of the commit of a list with
// ReplaceOptions.Rewrite, when both the file and the memtable have its writes.
func TestIndexDuringARewritingList(t *testing.T) {
	for _, r := range []store.Residency{store.All, store.None} {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{})
		g := store.GateCommits(s)
		c := openAs(t, s, r)
		mustList(t, c, 1)
		const key = "namespace-0/pod-0000"
		node := func(obj runtime.Object, err error) string {
			if err != nil || obj == nil {
				t.Errorf("%s: %v, %v", r, obj, err)
				return ""
			}
			return obj.(*corev1.Pod).Spec.NodeName
		}
		before := node(c.Get(t.Context(), key))
		looks := 0
		g.After(func() error {
			looks++
			got := node(c.Get(t.Context(), key))
			objs, err := c.ByIndex(t.Context(), cache.NamespaceIndex, "namespace-0")
			if err != nil || len(objs) != 1 || node(objs[0], nil) != got {
				t.Errorf("%s: Get says %s, ByIndex %v, %v", r, got, objs, err)
			}
			return nil
		})
		w, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: true})
		if err != nil {
			t.Fatal(err)
		}
		changed := somePod(0)
		changed.Spec.NodeName = "another"
		if _, err := w.Page(t.Context(), []runtime.Object{changed}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(t.Context(), entry.Batch{ResourceVersion: "2000"}); err != nil {
			t.Fatal(err)
		}
		flush(t, s)
		g.After(nil)
		if after := node(c.Get(t.Context(), key)); looks == 0 || before == after || after != "another" {
			t.Errorf("%s: %s, and then %s; %d commits", r, before, after, looks)
		}
		mustClose(t, s)
	}
}
