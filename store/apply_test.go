package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

var byNamespaceAndColor = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "color": storetest.ByColor,
}

func upsert(key, rv string, labels ...string) entry.Op {
	return entry.Op{Object: storetest.Pod(key, "uid-"+key, rv, labels...)}
}

func remove(key, rv string) entry.Op {
	return entry.Op{Type: entry.Delete, Object: storetest.Pod(key, "uid-"+key, rv)}
}

func apply(t *testing.T, c store.Interface, rv string, ops ...entry.Op) entry.Result {
	t.Helper()
	res, err := c.Apply(context.Background(), entry.Batch{Ops: ops, ResourceVersion: rv})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func infoOf(t *testing.T, c store.Interface) entry.Info {
	t.Helper()
	info, err := c.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func list(t *testing.T, c store.Interface) []string {
	t.Helper()
	objs, err := c.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, obj := range objs {
		sums = append(sums, storetest.Sum(obj))
	}
	return sums
}

func wantStrings(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestApplyWritesEachKeyOncePerBatch(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.AtOnce(store.Options{})), byNamespaceAndColor)
	res := apply(t, c, "9",
		upsert("b/x", "1"), upsert("b/x", "2"), remove("b/x", "3"), upsert("b/x", "4"), upsert("a/y", "5"))
	var got []string
	for _, ch := range res.Changes {
		got = append(got, fmt.Sprintf("%s %s %v", ch.Type, storetest.Sum(ch.New), ch.Old != nil))
	}
	wantStrings(t, "changes", got,
		"Added b/x uid=uid-b/x rv=1 false", "Updated b/x uid=uid-b/x rv=2 true", "Deleted b/x uid=uid-b/x rv=3 true",
		"Added b/x uid=uid-b/x rv=4 false", "Added a/y uid=uid-a/y rv=5 false")
	if info := infoOf(t, c); info.NextSeq != 3 || info.Objects != 2 {
		t.Errorf("two records were written, but the next sequence number is %d and there are %d objects", info.NextSeq,
			info.Objects)
	}
	first, _, _ := storedHeader(c, "b/x")
	second, _, _ := storedHeader(c, "a/y")
	if first != 1 || second != 2 {
		t.Errorf("sequence numbers %d, %d: want the order of the ops", first, second)
	}
}

func TestApplyDeleteOfUnknownKey(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	res := apply(t, c, "9", remove("a/x", "3"),
		entry.Op{Type: entry.Delete, Object: cache.DeletedFinalStateUnknown{Key: "a/y"}})
	if len(res.Changes) != 2 || res.Changes[0].Old != nil || storetest.Sum(res.Changes[0].New) != "a/x uid=uid-a/x rv=3" ||
		res.Changes[1].Key != "a/y" || res.Changes[1].New != nil {
		t.Errorf("changes %+v", res.Changes)
	}
}

func TestApplySkipsInvalidObjects(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), byNamespaceAndColor)
	apply(t, c, "2", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2"))
	res := apply(t, c, "20",
		upsert("a/x", "11", storetest.FailLabel, "error"),
		upsert("a/y", "12", storetest.FailLabel, "panic"),
		entry.Op{Object: &corev1.Secret{}},
		entry.Op{Object: "no object"},
		upsert("a/"+strings.Repeat("n", 1<<15), "13"),
		entry.Op{Object: cache.ExplicitKey("a/z")},
		upsert("a/z", "14"))
	if len(res.Skipped) != 6 || len(res.Changes) != 1 || res.Changes[0].Key != "a/z" {
		t.Fatalf("skipped %+v, changes %+v", res.Skipped, res.Changes)
	}
	for _, s := range res.Skipped {
		if s.Err == nil {
			t.Errorf("%q was skipped without a reason", s.Key)
		}
	}
	wantStrings(t, "what is stored", list(t, c),
		"a/x uid=uid-a/x rv=1 color=red", "a/y uid=uid-a/y rv=2", "a/z uid=uid-a/z rv=14")
	info := infoOf(t, c)
	if info.ResourceVersion != "20" {
		t.Errorf("resourceVersion %q: skipped objects must not hold it up", info.ResourceVersion)
	}
	// Info.Newest must omit a/x, whose newer state on the server the rewind check would take for a rewound server.
	if len(info.Newest) != 1 || info.Newest[0].Key != "a/z" {
		t.Errorf("newest: %+v", info.Newest)
	}
	apply(t, c, "21", remove("a/x", "21"))
	if keys, err := c.IndexKeys(context.Background(), "color", "red"); err != nil || len(keys) != 0 {
		t.Errorf("red: %q, %v", keys, err)
	}
}

func TestApplyKeepsOnlyComparableResourceVersions(t *testing.T) {
	memory, err := memory.New(storetest.Pods, store.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Interface{
		"Collection": openPods(t, storetest.Open(t, store.Options{}), nil), "Memory": memory,
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, c, "5", upsert("a/x", "5"))
			apply(t, c, "v1.000006", upsert("a/y", "v1.000006"))
			info := infoOf(t, c)
			if info.ResourceVersion != "" || info.MustRelist != entry.MustRelistOpaque {
				t.Errorf("resourceVersion %q, must relist: %q", info.ResourceVersion, info.MustRelist)
			}
			if len(info.Newest) != 1 || info.Objects != 2 {
				t.Errorf("%d objects, newest %+v", info.Objects, info.Newest)
			}
		})
	}
}

func TestApplyKeepsLastContactAndEmptyFields(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	if _, err := c.Apply(context.Background(), entry.Batch{ResourceVersion: "7", LastContact: at}); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "", upsert("a/x", "8"))
	if info := infoOf(t, c); info.ResourceVersion != "7" || !info.LastContact.Equal(at) {
		t.Errorf("resourceVersion %q, last contact %v", info.ResourceVersion, info.LastContact)
	}
}

func TestApplyCanceled(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, byNamespaceAndColor)
	apply(t, c, "1", upsert("a/x", "1", storetest.ColorLabel, "red"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{upsert("a/x", "2")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=1 color=red")
}

// TestApplyCommitFailure checks that after a failed commit reads see the batch, and the next commit writes the batch.
func TestApplyCommitFailure(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{Logger: &quiet}))
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	apply(t, c, "1", upsert("a/x", "1", storetest.ColorLabel, "red"))
	g.Fail(func() error { return syscall.ENOSPC })
	res, err := c.Apply(context.Background(), entry.Batch{Ops: []entry.Op{upsert("a/x", "2"), upsert("a/y", "3")},
		ResourceVersion: "3"})
	if !errors.Is(err, store.ErrNoSpace) || len(res.Changes) != 2 {
		t.Errorf("a commit that failed: %d changes, %v", len(res.Changes), err)
	}
	want := []string{"a/x uid=uid-a/x rv=2", "a/y uid=uid-a/y rv=3"}
	wantStrings(t, "what is served", list(t, c), want...)
	if info := infoOf(t, c); info.ResourceVersion != "3" || info.Objects != 2 {
		t.Errorf("info %+v", info)
	}
	view := viewPods(t, s, c)
	if info, err := view.Info(t.Context()); err != nil || info.ResourceVersion != "1" || info.Objects != 1 {
		t.Errorf("in the file: %+v, %v", info, err)
	}
	g.Fail(nil)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := view.Info(t.Context()); err != nil || info.ResourceVersion != "3" || info.Objects != 2 {
		t.Errorf("in the file: %+v, %v", info, err)
	}
}

// TestApplyOverAnUndecodableRecord checks that a record that this program cannot decode can be overwritten and deleted.
func TestApplyOverAnUndecodableRecord(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	unstructured, err := s.Collection(context.Background(), storetest.Pods,
		store.CollectionOptions{Residency: store.None, Codec: otherCodec{storetest.PodCodec()}})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, unstructured, "3", upsert("a/x", "1"), upsert("a/y", "2"))
	unstructured.Close()

	c := openPods(t, s, nil)
	if _, err := c.Get(context.Background(), "a/x"); !errors.Is(err, entry.ErrIncompatible) {
		t.Errorf("Get: %v", err)
	}
	res := apply(t, c, "5", upsert("a/x", "4"), remove("a/y", "5"))
	if res.Changes[0].Type != cache.Added || res.Changes[0].Old != nil || res.Changes[1].Old != nil {
		t.Errorf("changes %+v", res.Changes)
	}
	wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=4")
}

// otherCodec is a codec whose payloads no other codec can decode, because its name differs.
type otherCodec struct{ codec.Codec }

func (otherCodec) Name() string { return "other" }

func TestNewestHasTheHighestResourceVersions(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	var ops []entry.Op
	for _, n := range []int{5, 100, 20, 7, 99, 3, 12, 40, 41, 42, 9, 1000} {
		ops = append(ops, upsert(fmt.Sprintf("a/%d", n), fmt.Sprint(n)))
	}
	apply(t, c, "1000", ops...)
	apply(t, c, "1002", upsert("a/5", "1001"), remove("a/99", "1002"))
	var got []string
	for _, ref := range infoOf(t, c).Newest {
		got = append(got, ref.ResourceVersion)
	}
	wantStrings(t, "newest", got, "1001", "1000", "100", "42", "41", "40", "20")
}

func TestApplyIsAtomicForReaders(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	store.NoSync(s)
	c := openPods(t, s, byNamespaceAndColor)
	apply(t, c, "1", upsert("a/x", "1", storetest.ColorLabel, "c1"), upsert("b/x", "1", storetest.ColorLabel, "c1"))
	stop := make(chan struct{})
	failed := make(chan error, 2)
	reader := func(read func() ([]runtime.Object, error)) {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			objs, err := read()
			if err == nil && (len(objs) != 2 || objs[0].(*corev1.Pod).ResourceVersion != objs[1].(*corev1.Pod).ResourceVersion) {
				err = fmt.Errorf("a mixture: %d objects", len(objs))
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}
	go reader(func() ([]runtime.Object, error) { return c.List(context.Background()) })
	go reader(func() ([]runtime.Object, error) {
		objs, err := c.ByIndex(context.Background(), "color", "c1")
		if len(objs) == 0 { // A batch has changed the color.
			objs, err = c.List(context.Background())
		}
		return objs, err
	})
	for n := range 100 {
		rv, color := fmt.Sprint(n+2), fmt.Sprintf("c%d", n%2)
		apply(t, c, rv, upsert("a/x", rv, storetest.ColorLabel, color), upsert("b/x", rv, storetest.ColorLabel, color))
	}
	close(stop)
	for range 2 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
