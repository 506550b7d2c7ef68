package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// refusedPod is a pod that cannot be stored, because an index function of the collection fails on it.
func refusedPod(key, rv string) entry.Op { return upsert(key, rv, storetest.FailLabel, "error") }

// leftOutInFile returns Info.LeftOut from the file: key@resourceVersion and reason of each object left out.
func leftOutInFile(t *testing.T, s *store.Store) (leftOut []string, more bool) {
	t.Helper()
	infos, err := s.Collections(context.Background())
	if err != nil || len(infos) != 1 {
		t.Fatalf("collections: %+v, %v", infos, err)
	}
	for _, l := range infos[0].LeftOut {
		leftOut = append(leftOut, fmt.Sprintf("%s@%s %s", l.Key, l.ResourceVersion, l.Reason))
	}
	return leftOut, infos[0].LeftOutMore
}

// TestLeftOutIsInTheFile checks that every object that cannot be stored is added to Info.LeftOut in the transaction
// that stores its resourceVersion. Otherwise the next process would resume after the object and never receive it.
func TestLeftOutIsInTheFile(t *testing.T) {
	ctx := context.Background()
	begin := func(t *testing.T, c *store.Collection, o store.ReplaceOptions) store.Replacement {
		t.Helper()
		r, err := c.BeginReplace(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	page := func(t *testing.T, r store.Replacement, ops ...entry.Op) {
		t.Helper()
		if _, err := r.Page(ctx, podsOf(ops...)); err != nil {
			t.Fatal(err)
		}
	}
	warm := func(t *testing.T, c *store.Collection) store.Replacement {
		t.Helper()
		relist(t, c, store.ReplaceOptions{}, "2", upsert("a/bad", "1"), upsert("a/good", "2"))
		return begin(t, c, store.ReplaceOptions{})
	}
	transformed := entry.Op{Type: entry.LeaveOut, LeftOut: entry.LeftOut{
		ObjectRef: entry.ObjectRef{Key: "a/bad", UID: "uid-a/bad", ResourceVersion: "5"}, Reason: entry.LeftOutTransform,
	}}
	for _, test := range []struct {
		name string
		take func(t *testing.T, c *store.Collection)
		want string
	}{
		{"a change", func(t *testing.T, c *store.Collection) {
			relist(t, c, store.ReplaceOptions{}, "2", upsert("a/bad", "1"))
			apply(t, c, "9", upsert("a/good", "4"), refusedPod("a/bad", "5"))
		}, "a/bad@5 index"},
		{"a change that the caller refused", func(t *testing.T, c *store.Collection) {
			relist(t, c, store.ReplaceOptions{}, "2", upsert("a/bad", "1"))
			apply(t, c, "9", transformed)
		}, "a/bad@5 transform"},
		{"a first list", func(t *testing.T, c *store.Collection) {
			r := begin(t, c, store.ReplaceOptions{})
			page(t, r, refusedPod("a/bad", "5"), upsert("a/good", "2"))
			commitAll(t, r, "9")
		}, "a/bad@5 index"},
		{"an event during a first list", func(t *testing.T, c *store.Collection) {
			r := begin(t, c, store.ReplaceOptions{})
			page(t, r, upsert("a/bad", "1"), upsert("a/good", "2"))
			if _, err := r.Event(ctx, refusedPod("a/bad", "5")); err != nil {
				t.Fatal(err)
			}
			commitAll(t, r, "9")
		}, "a/bad@5 index"},
		{"another list", func(t *testing.T, c *store.Collection) {
			r := warm(t, c)
			page(t, r, refusedPod("a/bad", "5"), upsert("a/good", "2"))
			commitAll(t, r, "9")
		}, "a/bad@5 index"},
		{"an event during another list", func(t *testing.T, c *store.Collection) {
			r := warm(t, c)
			page(t, r, upsert("a/bad", "1"), upsert("a/good", "2"))
			if _, err := r.Event(ctx, refusedPod("a/bad", "5")); err != nil {
				t.Fatal(err)
			}
			commitAll(t, r, "9")
		}, "a/bad@5 index"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var gate hook.Gate
			o := byHand()
			o.Hooks = &hook.Hooks{Commit: gate.Commit}
			path := filepath.Join(t.TempDir(), "larder.db")
			s := storetest.OpenFile(t, path, o)
			c := openPods(t, s, byNamespaceAndColor)
			gate.After(func() error { // a crash may follow any transaction
				infos, err := s.Collections(ctx)
				leftOut, _ := leftOutInFile(t, s)
				if err == nil && infos[0].ResourceVersion == "9" && !slices.Equal(leftOut, []string{test.want}) {
					t.Errorf("the file is at 9, and lacks %q: %q", test.want, leftOut)
				}
				return err
			})
			test.take(t, c)
			flush(t, s)
			gate.After(nil)
			if infos, err := s.Collections(ctx); err != nil || infos[0].ResourceVersion != "9" {
				t.Fatalf("the file is at %+v, %v", infos, err)
			}
			if err := errors.Join(c.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			s = storetest.OpenFile(t, path, byHand())
			c = openPods(t, s, byNamespaceAndColor)
			if leftOut, more := leftOutInFile(t, s); !slices.Equal(leftOut, []string{test.want}) || more {
				t.Errorf("the next process finds %q (more: %t), want %q", leftOut, more, test.want)
			}
			apply(t, c, "10", upsert("a/bad", "10"))
			flush(t, s)
			if leftOut, more := leftOutInFile(t, s); len(leftOut) > 0 || more {
				t.Errorf("after its next change: %q (more: %t)", leftOut, more)
			}
		})
	}
}

// TestLeftOutIsBounded checks that Info.LeftOut names a limited number of objects that could not be stored, and that
// LeftOutMore is set if there are more, or objects without a key.
func TestLeftOutIsBounded(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1")
	var ops []entry.Op
	for i := range entry.MaxLeftOut {
		ops = append(ops, refusedPod(fmt.Sprintf("a/%03d", i), "2"))
	}
	apply(t, c, "3", ops...)
	flush(t, s)
	if leftOut, more := leftOutInFile(t, s); len(leftOut) != entry.MaxLeftOut || more {
		t.Errorf("%d are named (more: %t)", len(leftOut), more)
	}
	apply(t, c, "4", refusedPod("b/one-more", "4"))
	flush(t, s)
	if leftOut, more := leftOutInFile(t, s); len(leftOut) != entry.MaxLeftOut || !more {
		t.Errorf("one more: %d are named (more: %t)", len(leftOut), more)
	}
	// A list that compares only UID and resourceVersion has not retried the other left-out objects. A list with
	// ReplaceOptions.Rewrite, which replaces all stored objects, has.
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "5"))
	if leftOut, more := leftOutInFile(t, s); len(leftOut) > 0 || !more {
		t.Errorf("after a list: %q (more: %t)", leftOut, more)
	}
	relist(t, c, store.ReplaceOptions{Rewrite: true}, "6", upsert("a/x", "5"))
	if leftOut, more := leftOutInFile(t, s); len(leftOut) > 0 || more {
		t.Errorf("after a list that writes every body: %q (more: %t)", leftOut, more)
	}
}

// TestLeftOutBodyOfTheSameVersion checks an object that a list with ReplaceOptions.Rewrite could not store, with new
// content at the same resourceVersion. It stays in Info.LeftOut while later lists consider the object unchanged.
func TestLeftOutBodyOfTheSameVersion(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "2"))
	want := []string{"a/x@2 index"}
	for _, rewrite := range []bool{true, false} {
		items := []entry.Op{upsert("a/x", "2")}
		if rewrite {
			items = []entry.Op{refusedPod("a/x", "2")}
		}
		relist(t, c, store.ReplaceOptions{Rewrite: rewrite}, "3", items...)
		if leftOut, _ := leftOutInFile(t, s); !slices.Equal(leftOut, want) {
			t.Errorf("rewriting %t: %q, want %q", rewrite, leftOut, want)
		}
	}
}

// TestLeftOutIsNotAmongTheNewest checks that Info.Newest omits objects whose newest state could not be stored: the
// rewind check would take the server's newer state for a rewound server.
func TestLeftOutIsNotAmongTheNewest(t *testing.T) {
	m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: byNamespaceAndColor})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor), "Memory": m,
	} {
		t.Run(name, func(t *testing.T) {
			newest := func() (refs []string) {
				for _, ref := range infoOf(t, c).Newest {
					refs = append(refs, ref.Key+"@"+ref.ResourceVersion)
				}
				return refs
			}
			apply(t, c, "2", upsert("a/1", "1"), upsert("a/2", "2"))
			wantStrings(t, "newest", newest(), "a/2@2", "a/1@1")
			res, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{refusedPod("a/2", "3")}, ResourceVersion: "3"})
			if err != nil || len(res.Skipped) != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			wantStrings(t, "newest once a/2 was refused", newest(), "a/1@1")
			apply(t, c, "4", upsert("a/2", "4"))
			wantStrings(t, "newest in the end", newest(), "a/2@4", "a/1@1")
		})
	}
}

// TestRefusedObjectsAreNotReportedAgain checks that objects that the caller of a list has rejected are added to
// Info.LeftOut, but are not reported to that caller.
func TestRefusedObjectsAreNotReportedAgain(t *testing.T) {
	m, err := memory.New(storetest.Pods, store.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), nil), "Memory": m,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Abort()
			res, err := r.Page(t.Context(), podsOf(upsert("a/x", "1")), entry.LeftOut{Reason: entry.LeftOutKey},
				entry.LeftOut{ObjectRef: entry.ObjectRef{Key: "a/y", ResourceVersion: "2"}, Reason: entry.LeftOutCodec})
			if err != nil || len(res.Skipped) != 0 {
				t.Errorf("skipped %+v, %v", res.Skipped, err)
			}
			commitAll(t, r, "3")
			if info := infoOf(t, c); len(info.LeftOut) != 1 || !info.LeftOutMore {
				t.Errorf("left out %+v, more %t", info.LeftOut, info.LeftOutMore)
			}
		})
	}
}
