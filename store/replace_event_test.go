package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func TestEventsDuringARelist(t *testing.T) {
	for _, cold := range []bool{true, false} {
		t.Run(fmt.Sprintf("cold=%v", cold), func(t *testing.T) {
			testEventsDuringARelist(t, openPods(t, storetest.Open(t, store.Options{}), nil), cold)
		})
		t.Run(fmt.Sprintf("Memory cold=%v", cold), func(t *testing.T) {
			m, err := memory.New(storetest.Pods, store.CollectionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			testEventsDuringARelist(t, m, cold)
		})
	}
}

func testEventsDuringARelist(t *testing.T, c store.Interface, cold bool) {
	ctx := context.Background()
	if !cold {
		relist(t, c, store.ReplaceOptions{}, "1", upsert("a/1", "1"), upsert("a/2", "1"), upsert("a/9", "1"))
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := func(ops ...entry.Op) {
		for _, op := range ops {
			if _, err := r.Event(ctx, op); err != nil {
				t.Fatal(err)
			}
		}
	}
	page := func(ops ...entry.Op) {
		if _, err := r.Page(ctx, podsOf(ops...)); err != nil {
			t.Fatal(err)
		}
	}
	events(remove("a/5", "20"), upsert("a/6", "21"), upsert("a/7", "5"), upsert("a/9", "30"))
	page(upsert("a/1", "1"), upsert("a/3", "10"), upsert("a/5", "11"))
	events(upsert("a/3", "9"), remove("a/1", "31"), upsert("a/4", "32"), remove("b/1", "33"), remove("b/2", "34"))
	page(upsert("a/6", "12"), upsert("a/7", "13"))
	page(upsert("b/1", "14"), upsert("b/2", "35"))
	if _, err := r.Commit(ctx, entry.Batch{ResourceVersion: "40"}); err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "what is stored", list(t, c),
		"a/3 uid=uid-a/3 rv=10", // this is the listed state; an event during the list had an older state
		"a/4 uid=uid-a/4 rv=32", // this is the state of an event; the list did not have the object
		"a/6 uid=uid-a/6 rv=21", // this is the state of an event, which was newer than the listed state
		"a/7 uid=uid-a/7 rv=13", // this is the listed state; an event before the page had an older state
		"a/9 uid=uid-a/9 rv=30",
		// Object b/1 is missing, since an event deleted it after its page was read.
		"b/2 uid=uid-b/2 rv=35") // object b/2 was recreated before its page was read, after an event had deleted it
}

// TestSkippedDuringARelist checks that an object whose listed state cannot be stored is neither deleted nor in
// Info.Newest, where it would look like a rewound server.
func TestSkippedDuringARelist(t *testing.T) {
	ctx := context.Background()
	m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: byNamespaceAndColor})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor), "Memory": m,
	} {
		t.Run(name, func(t *testing.T) {
			relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "2"), upsert("a/3", "3"))
			r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.Page(ctx, podsOf(upsert("a/1", "11", storetest.FailLabel, "panic"), upsert("a/2", "12"),
				upsert("a/3", "13")))
			if err != nil || len(res.Skipped) != 1 || res.Skipped[0].Key != "a/1" {
				t.Fatalf("%+v, %v", res, err)
			}
			res, err = r.Event(ctx, upsert("a/2", "20", storetest.FailLabel, "error"))
			if err != nil || len(res.Skipped) != 1 || res.Skipped[0].Key != "a/2" {
				t.Fatalf("%+v, %v", res, err)
			}
			if _, err := r.Commit(ctx, entry.Batch{ResourceVersion: "30"}); err != nil {
				t.Fatal(err)
			}
			wantStrings(t, "what is stored", list(t, c), "a/1 uid=uid-a/1 rv=1", "a/2 uid=uid-a/2 rv=12",
				"a/3 uid=uid-a/3 rv=13")
			if newest := infoOf(t, c).Newest; len(newest) != 1 || newest[0].Key != "a/3" {
				t.Errorf("newest %+v", newest)
			}
		})
	}
}

// TestStaged checks that Result.Staged tells changes that are held back until Commit from no changes (issue 3).
func TestStaged(t *testing.T) {
	ctx := context.Background()
	m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: byNamespaceAndColor})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor), "Memory": m,
	} {
		t.Run(name, func(t *testing.T) {
			begin := func() store.Replacement {
				r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			want := func(what string, staged bool, changes int) func(entry.Result, error) {
				return func(res entry.Result, err error) {
					t.Helper()
					if err != nil || res.Staged != staged || len(res.Changes) != changes {
						t.Errorf("%s: %+v, %v", what, res, err)
					}
				}
			}
			r := begin()
			want("the first page of a cold start", false, 2)(r.Page(ctx, podsOf(upsert("a/1", "1"), upsert("a/2", "2"))))
			want("an event", false, 1)(r.Event(ctx, upsert("a/3", "3")))
			want("the next page", false, 1)(r.Page(ctx, podsOf(upsert("b/1", "1"))))
			want("an event that cannot be stored", true, 0)(r.Event(ctx, upsert("a/4", "4", storetest.FailLabel, "error")))
			r.Abort()
			r = begin()
			want("a page of a difference", true, 0)(r.Page(ctx, podsOf(upsert("a/1", "11"))))
			want("an event into it", true, 0)(r.Event(ctx, upsert("a/3", "13")))
			want("one that cannot be stored", true, 0)(r.Event(ctx, upsert("a/5", "14", storetest.FailLabel, "error")))
			want("its end", false, 4)(r.Commit(ctx, entry.Batch{ResourceVersion: "20"}))
		})
	}
}
