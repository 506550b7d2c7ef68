package store_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// TestListWithoutAResourceVersion checks that a collection is complete after a list without a resourceVersion, but must
// be listed again, since no watch can resume from it.
func TestListWithoutAResourceVersion(t *testing.T) {
	s := storetest.Open(t, byHand())
	m, err := memory.New(storetest.Pods, store.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{"Collection": openPods(t, s, nil), "Memory": m} {
		t.Run(name, func(t *testing.T) {
			for _, rv := range []string{"", "5", "", "7"} {
				relist(t, c, store.ReplaceOptions{}, rv, upsert("a/x", "1"))
				info := infoOf(t, c)
				if lists := rv == ""; !info.Complete || info.ResourceVersion != rv || (info.MustRelist != "") != lists {
					t.Errorf("after a list at %q: complete %v, resume from %q, must relist: %q",
						rv, info.Complete, info.ResourceVersion, info.MustRelist)
				}
			}
		})
	}
}

// TestIndexThatIsAddedDuringAList checks that an index added during a list also has the objects of earlier pages.
func TestIndexThatIsAddedDuringAList(t *testing.T) {
	ctx := context.Background()
	for _, cold := range []bool{true, false} {
		t.Run(fmt.Sprintf("cold=%v", cold), func(t *testing.T) {
			c := openPods(t, storetest.Open(t, store.Options{}), nil)
			if !cold {
				relist(t, c, store.ReplaceOptions{}, "3", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2"))
			}
			r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Abort()
			items := podsOf(upsert("a/x", "4", storetest.ColorLabel, "blue"), upsert("a/z", "5", storetest.ColorLabel, "blue"))
			if _, err := r.Page(ctx, items); err != nil {
				t.Fatal(err)
			}
			if err := c.AddIndexers(ctx, cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
				t.Fatal(err)
			}
			store.WaitBuilds(c)
			commitAll(t, r, "6")
			for color, want := range map[string][]string{"red": nil, "blue": {"a/x", "a/z"}} {
				keys, err := c.IndexKeys(ctx, "color", color)
				if err != nil {
					t.Fatal(err)
				}
				wantStrings(t, color, keys, want...)
			}
		})
	}
}

// TestIndexAfterWritesWithoutIt checks that a stored index gets the changes that a process made without it.
func TestIndexAfterWritesWithoutIt(t *testing.T) {
	s := storetest.Open(t, byHand())
	versions := map[string]string{"color": "1"}
	c := session(t, s, byNamespaceAndColor, versions)
	apply(t, c, "3", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2", storetest.ColorLabel, "red"))
	closeNow(t, c)
	c = session(t, s, nil, nil)
	apply(t, c, "5", upsert("a/x", "4", storetest.ColorLabel, "blue"), remove("a/y", "5"))
	closeNow(t, c)
	c = session(t, s, byNamespaceAndColor, versions)
	store.WaitBuilds(c)
	for color, want := range map[string][]string{"red": nil, "blue": {"a/x"}} {
		keys, err := c.IndexKeys(context.Background(), "color", color)
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, color, keys, want...)
	}
}

func closeNow(t *testing.T, c *store.Collection) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
