package store_test

import (
	"context"
	"maps"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func TestListsOutOfOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		pages [][]entry.Op
	}{
		{"backwards", [][]entry.Op{{upsert("b/2", "22")}, {upsert("b/1", "2")}, {upsert("a/2", "23")}, {upsert("a/1", "1")}}},
		{"backwards in one page",
			[][]entry.Op{{upsert("b/2", "22"), upsert("b/1", "2"), upsert("a/2", "23"), upsert("a/1", "1")}}},
		{"an older state afterwards", [][]entry.Op{
			{upsert("a/1", "1"), upsert("a/2", "23"), upsert("b/1", "2")}, {upsert("a/2", "3"), upsert("b/2", "22")},
			{upsert("b/2", "4")}}},
		{"an older state before", [][]entry.Op{
			{upsert("a/1", "1"), upsert("a/2", "3"), upsert("b/1", "2")}, {upsert("a/2", "23"), upsert("b/2", "4")},
			{upsert("b/2", "22")}}},
		{"both in one page", [][]entry.Op{
			{upsert("a/1", "1"), upsert("a/2", "23"), upsert("a/2", "3")},
			{upsert("b/1", "2"), upsert("b/2", "4"), upsert("b/2", "22")}}},
		{"what is on disk, after something newer", [][]entry.Op{
			{upsert("a/1", "1"), upsert("a/2", "23")}, {upsert("a/2", "3"), upsert("b/1", "2"), upsert("b/2", "22")}}},
		{"an older state of what is unchanged", [][]entry.Op{
			{upsert("a/1", "1"), upsert("a/2", "23"), upsert("b/1", "2")}, {upsert("b/1", "1"), upsert("b/2", "22")}}},
	} {
		for name, limits := range map[string][2]int{"InMemory": {1 << 20, 1 << 20}, "Spilling": {1, 1 << 20}} {
			t.Run(test.name+" "+name, func(t *testing.T) {
				c := openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor)
				store.SetLimits(c, limits[0], limits[1])
				relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "3"), upsert("b/1", "2"),
					upsert("c/1", "5"))
				testOutOfOrder(t, c, test.pages)
			})
		}
		t.Run(test.name+" Memory", func(t *testing.T) {
			m, err := memory.New(storetest.Pods, store.CollectionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			relist(t, m, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "3"), upsert("b/1", "2"),
				upsert("c/1", "5"))
			testOutOfOrder(t, m, test.pages)
		})
	}
}

func testOutOfOrder(t *testing.T, c store.Interface, pages [][]entry.Op) {
	ctx := context.Background()
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var changes []entry.Change
	for _, page := range pages {
		res, err := r.Page(ctx, podsOf(page...))
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, res.Changes...)
	}
	// A list with too many changes to hold back reports a duplicate key twice.
	shown := len(changes) > 0
	res, err := r.Commit(ctx, entry.Batch{ResourceVersion: "30"})
	if err != nil {
		t.Fatal(err)
	}
	changes = append(changes, res.Changes...)
	if !shown {
		wantStrings(t, "changes", describe(changes),
			"Deleted c/1 from {c/1 uid=uid-c/1 rv=5}",
			"Updated a/2 from {a/2 uid=uid-a/2 rv=3} to {a/2 uid=uid-a/2 rv=23}",
			"Added b/2 to {b/2 uid=uid-b/2 rv=22}")
	}
	reported := map[string]string{"a/1": "1", "a/2": "3", "b/1": "2", "c/1": "5"}
	for _, ch := range changes {
		if ch.Old != nil && rvOf(ch.Old) != reported[ch.Key] || ch.Old == nil && reported[ch.Key] != "" {
			t.Errorf("%s: reported before: %q", describe([]entry.Change{ch}), reported[ch.Key])
		}
		if delete(reported, ch.Key); ch.New != nil {
			reported[ch.Key] = rvOf(ch.New)
		}
	}
	if want := map[string]string{"a/1": "1", "a/2": "23", "b/1": "2", "b/2": "22"}; !maps.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
	wantStrings(t, "what is stored", list(t, c),
		"a/1 uid=uid-a/1 rv=1", "a/2 uid=uid-a/2 rv=23", "b/1 uid=uid-b/1 rv=2", "b/2 uid=uid-b/2 rv=22")
	var newest []string
	for _, ref := range infoOf(t, c).Newest {
		newest = append(newest, ref.Key+"@"+ref.ResourceVersion)
	}
	wantStrings(t, "newest", newest, "a/2@23", "b/2@22", "b/1@2", "a/1@1")
}
