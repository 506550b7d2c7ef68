package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// wantObjects checks that all kinds of read return the expected objects, given as storetest.Sum in key order.
func wantObjects(t *testing.T, c *store.Collection, rv string, sums ...string) {
	t.Helper()
	ctx := context.Background()
	wantStrings(t, "List", list(t, c), sums...)
	colors, namespaces := map[string][]string{}, map[string][]string{}
	var keys, iterated []string
	for _, sum := range sums {
		key, rest, _ := strings.Cut(sum, " ")
		keys = append(keys, key)
		ns, _, _ := strings.Cut(key, "/")
		namespaces[ns] = append(namespaces[ns], sum)
		if _, color, ok := strings.Cut(rest, "color="); ok {
			for _, value := range strings.Split(color, ".") {
				colors[value] = append(colors[value], sum)
			}
		}
		obj, err := c.Get(ctx, key)
		if err != nil || obj == nil || storetest.Sum(obj) != sum {
			t.Errorf("Get %s: %v, %v", key, obj, err)
		}
	}
	got, err := c.Keys(ctx)
	if err != nil {
		t.Error(err)
	}
	wantStrings(t, "Keys", got, keys...)
	err = c.Iterate(ctx, "", func(_ string, obj runtime.Object) error {
		iterated = append(iterated, storetest.Sum(obj))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantStrings(t, "Iterate", iterated, sums...)
	if len(keys) > 1 {
		iterated = nil
		err = c.Iterate(ctx, keys[0], func(key string, _ runtime.Object) error {
			iterated = append(iterated, key)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		wantStrings(t, "Iterate after the first", iterated, keys[1:]...)
	}
	wantIndex(t, c, "color", colors, "red", "green", "blue")
	wantIndex(t, c, cache.NamespaceIndex, namespaces, "a", "b", "none")
	info := infoOf(t, c)
	if info.ResourceVersion != rv || info.Objects != len(sums) {
		t.Errorf("Info: resourceVersion %s, %d objects; want %s, %d", info.ResourceVersion, info.Objects, rv, len(sums))
	}
	for _, ref := range info.Newest {
		if !slices.Contains(keys, ref.Key) {
			t.Errorf("Newest has %s, which is not there", ref.Key)
		}
	}
}

// wantIndex checks that all reads of an index return the expected objects, given for each value as storetest.Sum.
func wantIndex(t *testing.T, c *store.Collection, index string, filed map[string][]string, more ...string) {
	t.Helper()
	ctx := context.Background()
	var want []string
	for value := range filed {
		want = append(want, value)
	}
	slices.Sort(want)
	values, err := c.IndexValues(ctx, index)
	if err != nil {
		t.Error(err)
	}
	wantStrings(t, "values of "+index, values, want...)
	for _, value := range append(want, more...) {
		objs, err := c.ByIndex(ctx, index, value)
		keys, err2 := c.IndexKeys(ctx, index, value)
		if err != nil || err2 != nil {
			t.Error(err, err2)
		}
		var sums, sumKeys []string
		for _, obj := range objs {
			sums = append(sums, storetest.Sum(obj))
		}
		for _, sum := range filed[value] {
			key, _, _ := strings.Cut(sum, " ")
			sumKeys = append(sumKeys, key)
		}
		wantStrings(t, "ByIndex "+index+" "+value, sums, filed[value]...)
		wantStrings(t, "IndexKeys "+index+" "+value, keys, sumKeys...)
	}
}

// TestReadsWhileACommitHangs checks that reads see all changes that were applied since the commit began.
func TestReadsWhileACommitHangs(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5",
		upsert("a/file", "1", storetest.ColorLabel, "red"), upsert("a/gone", "2", storetest.ColorLabel, "green"),
		upsert("a/lost", "3", storetest.ColorLabel, "red"), upsert("b/back", "4", storetest.ColorLabel, "blue"))
	apply(t, c, "10", upsert("a/new", "6", storetest.ColorLabel, "red"),
		upsert("b/new", "7", storetest.ColorLabel, "green.blue"),
		remove("b/back", "8"), upsert("a/lost", "9", storetest.ColorLabel, "red.green"), upsert("b/then", "10"))
	steps := func() {
		wantObjects(t, c, "10", "a/file uid=uid-a/file rv=1 color=red", "a/gone uid=uid-a/gone rv=2 color=green",
			"a/lost uid=uid-a/lost rv=9 color=red.green", "a/new uid=uid-a/new rv=6 color=red",
			"b/new uid=uid-b/new rv=7 color=green.blue", "b/then uid=uid-b/then rv=10")
	}
	steps()
	finish := hang(t, s, g)
	steps()
	res := apply(t, c, "20", remove("a/gone", "11"), upsert("a/lost", "12"),
		upsert("b/back", "13", storetest.ColorLabel, "green"),
		remove("b/then", "14"), upsert("a/new", "15", storetest.ColorLabel, "blue"),
		upsert("b/new", "16", storetest.ColorLabel, "blue"),
		upsert("b/last", "17"), remove("b/last", "18"))
	wantStrings(t, "changes", describe(res.Changes), describe([]entry.Change{
		{Type: cache.Deleted, Key: "a/gone", Old: upsert("a/gone", "2", "color", "green").Object.(runtime.Object),
			New: remove("a/gone", "11").Object.(runtime.Object)},
		{Type: cache.Updated, Key: "a/lost", Old: upsert("a/lost", "9", "color", "red.green").Object.(runtime.Object),
			New: upsert("a/lost", "12").Object.(runtime.Object)},
		{Type: cache.Added, Key: "b/back", New: upsert("b/back", "13", "color", "green").Object.(runtime.Object)},
		{Type: cache.Deleted, Key: "b/then", Old: upsert("b/then", "10").Object.(runtime.Object),
			New: remove("b/then", "14").Object.(runtime.Object)},
		{Type: cache.Updated, Key: "a/new", Old: upsert("a/new", "6", "color", "red").Object.(runtime.Object),
			New: upsert("a/new", "15", "color", "blue").Object.(runtime.Object)},
		{Type: cache.Updated, Key: "b/new", Old: upsert("b/new", "7", "color", "green.blue").Object.(runtime.Object),
			New: upsert("b/new", "16", "color", "blue").Object.(runtime.Object)},
		{Type: cache.Added, Key: "b/last", New: upsert("b/last", "17").Object.(runtime.Object)},
		{Type: cache.Deleted, Key: "b/last", Old: upsert("b/last", "17").Object.(runtime.Object),
			New: remove("b/last", "18").Object.(runtime.Object)},
	})...)
	want := []string{"a/file uid=uid-a/file rv=1 color=red", "a/lost uid=uid-a/lost rv=12",
		"a/new uid=uid-a/new rv=15 color=blue",
		"b/back uid=uid-b/back rv=13 color=green", "b/new uid=uid-b/new rv=16 color=blue"}
	wantObjects(t, c, "20", want...)
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	wantObjects(t, c, "20", want...)
	finish = hang(t, s, g)
	wantObjects(t, c, "20", want...)
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	wantObjects(t, c, "20", want...)
	storetest.Check(t, s)
}

// TestBackpressure checks that at the limit of uncommitted bytes Apply waits for the commit or its context.
func TestBackpressure(t *testing.T) {
	s := storetest.Open(t, byHand())
	store.SetDirtyLimit(s, 1000)
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	entered, release := g.Hold()
	t.Cleanup(release)
	for s.Pending() < 1000 {
		apply(t, c, "1", upsert("a/"+strings.Repeat("x", s.Pending()+1), "1"))
	}
	<-entered
	ended, cancel := context.WithCancel(context.Background())
	why := errors.New("enough")
	cause, cancelCause := context.WithCancelCause(context.Background())
	waiting := make(chan error, 3)
	more := func(ctx context.Context) {
		_, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{upsert("a/more", "2")}, ResourceVersion: "2"})
		waiting <- err
	}
	go more(ended)
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	go more(cause)
	cancelCause(why)
	if err := <-waiting; !errors.Is(err, why) {
		t.Errorf("canceled with a cause: %v", err)
	}
	if infoOf(t, c).ResourceVersion != "1" {
		t.Error("a batch that did not wait was taken in")
	}
	go more(context.Background())
	go func() { waiting <- c.Backpressure(context.Background()) }()
	release()
	for range 2 {
		if err := <-waiting; err != nil {
			t.Errorf("once there was room: %v", err)
		}
	}
	if infoOf(t, c).ResourceVersion != "2" {
		t.Error("the batch that waited was not taken in")
	}
}

// TestBackpressureFailsAtOnceWhenCommitsFail checks that Apply does not wait for failing commits, but returns their
// error, so that the caller can report it and retry.
func TestBackpressureFailsAtOnceWhenCommitsFail(t *testing.T) {
	s := storetest.Open(t, byHand())
	store.SetDirtyLimit(s, 1)
	g := store.GateCommits(s)
	c := openPods(t, s, nil)
	g.Fail(full)
	apply(t, c, "1", upsert("a/x", "1"))
	if err := s.Flush(context.Background()); !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, err := c.Apply(context.Background(), entry.Batch{ResourceVersion: "2"}); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Apply: %v", err)
	}
	g.Fail(nil)
	flush(t, s)
	apply(t, c, "2", upsert("a/x", "2"))
}
