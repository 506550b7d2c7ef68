package store_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func podsOf(ops ...entry.Op) []runtime.Object {
	var items []runtime.Object
	for _, op := range ops {
		items = append(items, op.Object.(runtime.Object))
	}
	return items
}

// relist lists the items in one page and commits the list. It returns the reported changes.
func relist(t *testing.T, c store.Interface, o store.ReplaceOptions, rv string, items ...entry.Op) []entry.Change {
	t.Helper()
	r, err := c.BeginReplace(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Page(context.Background(), podsOf(items...))
	if err != nil {
		t.Fatal(err)
	}
	changes := append(res.Changes, commitAll(t, r, rv)...)
	if inFile, ok := c.(*store.Collection); ok {
		// An error of Flush is ignored, since some tests make the disk fail.
		_ = store.StoreOf(inFile).Flush(t.Context())
	}
	return changes
}

func commitAll(t *testing.T, r store.Replacement, rv string) (changes []entry.Change) {
	t.Helper()
	for more := true; more; {
		res, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: rv})
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, res.Changes...)
		more = res.More
	}
	return changes
}

func describe(changes []entry.Change) []string {
	var got []string
	for _, ch := range changes {
		s := fmt.Sprintf("%s %s", ch.Type, ch.Key)
		if ch.Old != nil {
			s += " from {" + storetest.Sum(ch.Old) + "}"
		}
		if ch.New != nil {
			s += " to {" + storetest.Sum(ch.New) + "}"
		}
		got = append(got, s)
	}
	return got
}

func TestRelistWritesOnlyDifferences(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "2", storetest.ColorLabel, "red"),
		upsert("b/1", "3"))
	before := map[string]uint64{}
	for _, key := range []string{"a/1", "b/1"} {
		before[key], _, _ = storedHeader(c, key)
	}
	next := infoOf(t, c).NextSeq

	changes := relist(t, c, store.ReplaceOptions{}, "20", upsert("a/1", "1"), upsert("a/3", "15"), upsert("b/1", "16"))
	wantStrings(t, "changes", describe(changes),
		"Deleted a/2 from {a/2 uid=uid-a/2 rv=2 color=red}",
		"Added a/3 to {a/3 uid=uid-a/3 rv=15}",
		"Updated b/1 from {b/1 uid=uid-b/1 rv=3} to {b/1 uid=uid-b/1 rv=16}")
	if seq, _, _ := storedHeader(c, "a/1"); seq != before["a/1"] {
		t.Errorf("a/1 did not change, but was written: sequence number %d, was %d", seq, before["a/1"])
	}
	if info := infoOf(t, c); info.NextSeq != next+2 || info.ResourceVersion != "20" || info.Objects != 3 {
		t.Errorf("info %+v", info)
	}
}

// TestRelistDistinguishesObjectsByUID matters because another cluster may have objects of equal key and
// resourceVersion.
func TestRelistDistinguishesObjectsByUID(t *testing.T) {
	memory, err := memory.New(storetest.Pods, store.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), nil), "Memory": memory,
	} {
		t.Run(name, func(t *testing.T) {
			relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"))
			changes := relist(t, c, store.ReplaceOptions{}, "10", entry.Op{Object: storetest.Pod("a/1", "other", "1")})
			wantStrings(t, "changes", describe(changes), "Updated a/1 from {a/1 uid=uid-a/1 rv=1} to {a/1 uid=other rv=1}")
		})
	}
}

func TestEmptyListIsNotMissing(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	if infoOf(t, c).Complete {
		t.Error("complete before any list")
	}
	relist(t, c, store.ReplaceOptions{}, "10")
	if info := infoOf(t, c); !info.Complete || info.ResourceVersion != "10" || info.Objects != 0 {
		t.Errorf("info %+v", info)
	}
}

func TestAbortedColdStartIsIncompleteAndRemovedByTheNextProcess(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Page(context.Background(), podsOf(upsert("a/1", "1", storetest.ColorLabel, "red"))); err != nil {
		t.Fatal(err)
	}
	r.Abort()
	if info := infoOf(t, c); info.Complete || info.ResourceVersion != "" {
		t.Errorf("info %+v", info)
	}
	// This process has reported the first list's changes, so the second list reports the difference.
	changes := relist(t, c, store.ReplaceOptions{}, "", upsert("a/2", "2"))
	wantStrings(t, "changes", describe(changes),
		"Deleted a/1 from {a/1 uid=uid-a/1 rv=1 color=red}", "Added a/2 to {a/2 uid=uid-a/2 rv=2}")

	other, err := s.Collection(context.Background(),
		entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: "a"},
		store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec()})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, other, "1", upsert("a/1", "1"))
	other.Close()
	other, err = s.Collection(context.Background(), other.Identity(),
		store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	changes = relist(t, other, store.ReplaceOptions{}, "5", upsert("a/2", "2"))
	wantStrings(t, "changes of another process", describe(changes), "Added a/2 to {a/2 uid=uid-a/2 rv=2}")
	wantStrings(t, "what is stored", list(t, other), "a/2 uid=uid-a/2 rv=2")
}

func TestRewriteReportsOnlySemanticDifferences(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "2"))
	seq, _, _ := storedHeader(c, "a/1")
	changes := relist(t, c, store.ReplaceOptions{Rewrite: true, Attributes: entry.Attributes{Schema: "new"}}, "20",
		upsert("a/1", "1"), upsert("a/2", "2", storetest.ColorLabel, "red"))
	wantStrings(t, "changes", describe(changes),
		"Updated a/2 from {a/2 uid=uid-a/2 rv=2} to {a/2 uid=uid-a/2 rv=2 color=red}")
	if now, _, _ := storedHeader(c, "a/1"); now != seq {
		t.Error("a body that is the same to the byte was written")
	}
	if keys, err := c.IndexKeys(context.Background(), "color", "red"); err != nil || len(keys) != 1 {
		t.Errorf("red: %q, %v", keys, err)
	}
	if info := infoOf(t, c); info.Attributes.Schema != "new" {
		t.Errorf("attributes %+v", info.Attributes)
	}
}

func TestRewriteOfRecordsOfAnotherCodec(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	old, err := s.Collection(context.Background(), storetest.Pods,
		store.CollectionOptions{Residency: store.None, Codec: otherCodec{storetest.PodCodec()}})
	if err != nil {
		t.Fatal(err)
	}
	relist(t, old, store.ReplaceOptions{}, "10", upsert("a/1", "1"), upsert("a/2", "2"))
	old.Close()
	c := openPods(t, s, nil)
	changes := relist(t, c, store.ReplaceOptions{Rewrite: true}, "20", upsert("a/1", "1"))
	// This process cannot decode the old a/1 and a/2 and has never reported them, so it reports the new objects as added.
	wantStrings(t, "changes", describe(changes), "Deleted a/2", "Added a/1 to {a/1 uid=uid-a/1 rv=1}")
	wantStrings(t, "what is stored", list(t, c), "a/1 uid=uid-a/1 rv=1")
}

// TestLargeRelist checks a list with more changes than may be held back until Commit: further changes become visible at
// once, MustRelist is set until the list ends, and deletes wait for the end.
func TestLargeRelist(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/0", "1"))
	begin := func() (r store.Replacement, shown int) {
		store.SetLimits(c, 500, 1<<20)
		r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			res, err := r.Page(context.Background(), podsOf(upsert(fmt.Sprintf("b/%02d", n), fmt.Sprint(n+10))))
			if err != nil {
				t.Fatal(err)
			}
			shown += len(res.Changes)
		}
		return r, shown
	}
	r, shown := begin()
	if info := infoOf(t, c); shown == 0 || info.Objects != 1+shown || info.MustRelist == "" ||
		info.ResourceVersion != "1" {
		t.Errorf("%d shown, %+v", shown, info)
	}
	r.Abort()
	c.Close()
	c = openPods(t, s, byNamespaceAndColor)
	if info := infoOf(t, c); info.Objects != 1+shown || info.MustRelist == "" {
		t.Errorf("after a list that did not end: %+v", info)
	}
	r, again := begin()
	if again != 0 {
		t.Errorf("%d shown again", again)
	}
	res, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: "50"})
	if err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "changes of the end", describe(res.Changes), "Deleted a/0 from {a/0 uid=uid-a/0 rv=1}")
	if info := infoOf(t, c); info.Objects != 20 || info.MustRelist != "" || info.ResourceVersion != "50" {
		t.Errorf("%+v", info)
	}
}

func TestReplaceCanBeRetried(t *testing.T) {
	for name, limits := range map[string][2]int{"InMemory": {1 << 20, 1 << 20}, "Spilling": {1, 1}} {
		for _, cold := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s cold=%v", name, cold), func(t *testing.T) { testReplaceRetried(t, limits, cold) })
		}
	}
}

func testReplaceRetried(t *testing.T, limits [2]int, cold bool) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	shadow := map[string]string{}
	if !cold {
		relist(t, c, store.ReplaceOptions{}, "1", upsert("a/0", "1"), upsert("b/01", "2"))
		shadow["a/0"], shadow["b/01"] = "1", "2"
	}
	store.SetLimits(c, limits[0], limits[1])
	n := 0
	failCommits(s, func() error {
		if n++; n%3 != 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	retry := func(step func() (entry.Result, error)) {
		t.Helper()
		for {
			res, err := step()
			for _, ch := range res.Changes {
				if ch.Type == cache.Deleted {
					delete(shadow, ch.Key)
				} else {
					shadow[ch.Key] = ch.New.(interface{ GetResourceVersion() string }).GetResourceVersion()
				}
			}
			switch {
			case err == nil && !res.More:
				return
			case err != nil && (!errors.Is(err, store.ErrNoSpace) || len(res.Changes) > 0 || res.More):
				t.Fatalf("%+v, %v", res, err)
			}
		}
	}
	var r store.Replacement
	retry(func() (res entry.Result, err error) {
		r, err = c.BeginReplace(ctx, store.ReplaceOptions{})
		return res, err
	})
	for n := range 6 {
		retry(func() (entry.Result, error) {
			return r.Page(ctx, podsOf(upsert(fmt.Sprintf("b/%02d", 2*n), fmt.Sprint(2*n+10)),
				upsert(fmt.Sprintf("b/%02d", 2*n+1), fmt.Sprint(2*n+11))))
		})
		retry(func() (entry.Result, error) { return r.Event(ctx, remove("b/03", fmt.Sprint(50+n))) })
	}
	retry(func() (entry.Result, error) { return r.Commit(ctx, entry.Batch{ResourceVersion: "60"}) })
	keys, err := c.Keys(ctx)
	if err != nil || len(keys) != 11 || len(shadow) != 11 {
		t.Errorf("%q are stored, %v are reported, %v; want 11", keys, shadow, err)
	}
	if info := infoOf(t, c); info.ResourceVersion != "60" || !info.Complete {
		t.Errorf("info %+v", info)
	}
}

func TestReplacementExcludesOtherWriters(t *testing.T) {
	ctx := context.Background()
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(ctx, entry.Batch{ResourceVersion: "1"}); !errors.Is(err, store.ErrReplacing) {
		t.Errorf("Apply: %v", err)
	}
	if err := c.SetMustRelist(ctx, "why"); !errors.Is(err, store.ErrReplacing) {
		t.Errorf("SetMustRelist: %v", err)
	}
	if _, err := c.BeginReplace(ctx, store.ReplaceOptions{}); !errors.Is(err, store.ErrReplacing) {
		t.Errorf("BeginReplace: %v", err)
	}
	if _, err := r.Commit(ctx, entry.Batch{Ops: []entry.Op{upsert("a/x", "1")}}); err == nil {
		t.Error("a commit with ops was taken")
	}
	r.Abort()
	r.Abort()
	if _, err := r.Commit(ctx, entry.Batch{}); err == nil {
		t.Error("a commit after the abort was taken")
	}
	apply(t, c, "1")
}
