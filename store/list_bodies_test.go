package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// TestListComparesBodiesAndTerms checks that a list replaces objects whose content or index values differ at an equal
// UID and resourceVersion, and reports only different content (issue 37).
func TestListComparesBodiesAndTerms(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, o store.CollectionOptions) store.Interface{
		"memory": func(t *testing.T, o store.CollectionOptions) store.Interface {
			m, err := memory.New(storetest.Pods, o)
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
		"All":  func(t *testing.T, o store.CollectionOptions) store.Interface { return openIn(t, o, store.All) },
		"None": func(t *testing.T, o store.CollectionOptions) store.Interface { return openIn(t, o, store.None) },
	} {
		t.Run(name, func(t *testing.T) {
			var shift atomic.Bool // if true, the index function returns other values than at first
			c := open(t, store.CollectionOptions{Codec: storetest.PodCodec(), Indexers: cache.Indexers{
				"color": func(obj any) ([]string, error) {
					color := obj.(*corev1.Pod).Labels["color"]
					if shift.Load() {
						color += "!"
					}
					return []string{color}, nil
				},
			}})
			list := func(colors ...string) entry.Result {
				t.Helper()
				r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Abort()
				var items []runtime.Object
				for n, color := range colors {
					pod := somePod(n)
					pod.Labels = map[string]string{"color": color}
					items = append(items, pod)
				}
				first, err := r.Page(t.Context(), items)
				if err != nil {
					t.Fatal(err)
				}
				last, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9000"})
				if err != nil {
					t.Fatal(err)
				}
				last.Changes = append(first.Changes, last.Changes...)
				return last
			}
			seq := func() uint64 {
				t.Helper()
				info, err := c.Info(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return info.NextSeq
			}
			keys := func(color string) string {
				t.Helper()
				keys, err := c.IndexKeys(t.Context(), "color", color)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(len(keys))
			}
			list("red", "red")
			before := seq()
			if res := list("red", "red"); len(res.Changes) != 0 || seq() != before {
				t.Errorf("an equal list: %d changes, %d writes", len(res.Changes), seq()-before)
			}
			if res := list("red", "green"); len(res.Changes) != 1 || res.Changes[0].Type != cache.Updated {
				t.Errorf("another body: %+v", res.Changes)
			}
			if got := keys("red") + keys("green"); got != "11" {
				t.Errorf("another body: the index has %s", got)
			}
			shift.Store(true)
			if res := list("red", "green"); len(res.Changes) != 0 {
				t.Errorf("other terms: %+v", res.Changes)
			}
			if got := keys("red") + keys("green") + keys("red!") + keys("green!"); got != "0011" {
				t.Errorf("other terms: the index has %s", got)
			}
		})
	}
}

func openIn(t *testing.T, o store.CollectionOptions, r store.Residency) store.Interface {
	t.Helper()
	o.Residency = r
	c, err := mustOpen(t, t.TempDir()+"/store", store.Options{}).Collection(t.Context(), storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
