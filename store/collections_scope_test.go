package store_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestScopeFromKeys checks that Store.Collections reports a collection as namespaced because its keys have namespaces,
// even without CollectionOptions.Resource and Info.Newest.
func TestScopeFromKeys(t *testing.T) {
	for _, rv := range []string{"7", "v7"} {
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.AtOnce(store.Options{}))
		c := mustCollection(t, s, pods())
		if mustInfo(t, c).Resource.Namespaced {
			t.Fatal("it is claimed of an empty collection")
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: rv}}
		if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Upsert, Object: pod}}}); err != nil {
			t.Fatal(err)
		}
		infos, err := s.Collections(t.Context())
		if err != nil || len(infos) != 1 || !infos[0].Resource.Namespaced || len(infos[0].Newest) > 0 != (rv == "7") {
			t.Errorf("resourceVersion %s: %+v, %v", rv, infos, err)
		}
	}
}
