package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// fileStates are the valid states of a file of pods, by resourceVersion: all keys and the keys of the red pods.
type fileStates map[string]struct{ keys, red []string }

// problem describes how the file differs from the expected state at its resourceVersion; "" for no difference. A
// collection that is incomplete or must be listed may have any state, since no informer resumes from it.
func (f fileStates) problem(ctx context.Context, s *store.Store) string {
	view, err := s.ViewWith(ctx, storetest.Pods, storetest.PodCodec())
	if err != nil {
		return err.Error()
	}
	info, err := view.Info(ctx)
	if err != nil {
		return err.Error()
	}
	if !info.Complete || info.MustRelist != "" {
		return ""
	}
	keys, err := view.Keys(ctx)
	if err != nil {
		return err.Error()
	}
	red, err := view.IndexKeys(ctx, "color", "red")
	if err != nil {
		return err.Error()
	}
	want, known := f[info.ResourceVersion]
	if !known || !slices.Equal(keys, want.keys) || !slices.Equal(red, want.red) || info.Objects != len(keys) {
		return fmt.Sprintf("at resourceVersion %q the file has %q (%d, it says), of which %q are red; want %q, and %q",
			info.ResourceVersion, keys, info.Objects, red, want.keys, want.red)
	}
	return ""
}

// at fails the test unless the file is at resourceVersion rv and has the expected state.
func (f fileStates) at(t *testing.T, s *store.Store, rv string) {
	t.Helper()
	if problem := f.problem(context.Background(), s); problem != "" {
		t.Error(problem)
	}
	infos, err := s.Collections(context.Background())
	if err != nil || len(infos) != 1 {
		t.Fatalf("collections: %+v, %v", infos, err)
	}
	if infos[0].ResourceVersion != rv {
		t.Errorf("the file is at resourceVersion %q, want %s", infos[0].ResourceVersion, rv)
	}
}

// TestEveryTransactionLeavesAState checks that after each transaction the objects, index entries and counts in the file
// belong to its resourceVersion, so that a crash leaves a consistent file.
func TestEveryTransactionLeavesAState(t *testing.T) {
	var gate hook.Gate
	o := byHand()
	o.Hooks = &hook.Hooks{Commit: gate.Commit}
	s := storetest.Open(t, o)
	c := openPods(t, s, byNamespaceAndColor)
	states := fileStates{
		"2": {[]string{"a/w", "a/x"}, []string{"a/x"}},
		"3": {[]string{"a/w", "a/x", "a/y"}, []string{"a/x", "a/y"}},
		"6": {[]string{"a/w", "a/y"}, nil},
		"7": {[]string{"a/w", "a/y"}, nil}, // a bookmark changes no object
		"9": {[]string{"a/y", "a/z"}, []string{"a/z"}},
	}
	transactions := 0
	gate.After(func() error {
		transactions++
		if problem := states.problem(context.Background(), s); problem != "" {
			t.Errorf("after transaction %d: %s", transactions, problem)
		}
		return nil
	})
	red := func(key, rv string) entry.Op { return upsert(key, rv, storetest.ColorLabel, "red") }
	relist(t, c, store.ReplaceOptions{}, "2", upsert("a/w", "1"), red("a/x", "2"))
	apply(t, c, "3", red("a/y", "3"))
	flush(t, s)
	states.at(t, s, "3")
	apply(t, c, "5", remove("a/x", "4"), upsert("a/z", "5"))
	apply(t, c, "6", upsert("a/y", "6"), remove("a/z", "6"))
	flush(t, s)
	states.at(t, s, "6")
	apply(t, c, "7")
	flush(t, s)
	states.at(t, s, "7")
	relist(t, c, store.ReplaceOptions{}, "9", upsert("a/y", "8"), red("a/z", "9"))
	flush(t, s)
	states.at(t, s, "9")
	gate.After(nil)
	if transactions < 5 {
		t.Errorf("%d transactions were looked at", transactions)
	}
}

// TestCommitCoversItsObjectsOnly checks a commit that waits for another write while batches are applied: its objects
// and its resourceVersion must be of the same batch.
func TestCommitCoversItsObjectsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		gate := &hook.Gate{}
		o := byHand()
		o.Hooks = &hook.Hooks{Commit: gate.Commit}
		s := storetest.Open(t, o)
		c := openPods(t, s, byNamespaceAndColor)
		relist(t, c, store.ReplaceOptions{}, "1")
		states := fileStates{
			"1": {},
			"2": {[]string{"a/x"}, nil},
			"3": {[]string{"a/x", "a/y"}, nil},
			"4": {[]string{"a/x", "a/y"}, nil},
		}
		apply(t, c, "2", upsert("a/x", "2"))
		entered, release := gate.Hold()
		results := make(chan error, 2)
		go func() { results <- s.PutDocument(ctx, "other", []byte("write")) }()
		<-entered
		go func() { results <- s.Flush(ctx) }()
		synctest.Wait()
		apply(t, c, "3", upsert("a/y", "3"))
		apply(t, c, "4")
		release()
		for range cap(results) {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		if problem := states.problem(ctx, s); problem != "" {
			t.Errorf("after a commit that had to wait: %s", problem)
		}
		flush(t, s)
		states.at(t, s, "4")
	})
}

func TestFailedCommitLosesNothing(t *testing.T) {
	ctx := context.Background()
	var gate hook.Gate
	o := byHand()
	o.Hooks = &hook.Hooks{Commit: gate.Commit}
	s := storetest.Open(t, o)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "2", upsert("a/w", "1"), upsert("a/x", "2"))
	states := fileStates{
		"2": {[]string{"a/w", "a/x"}, nil},
		"5": {[]string{"a/w", "a/y", "a/z"}, nil},
	}
	gate.Fail(full)
	apply(t, c, "4", remove("a/x", "3"), upsert("a/y", "4"))
	if err := s.Flush(ctx); !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("Flush: %v, want ErrNoSpace", err)
	}
	states.at(t, s, "2")
	gate.Fail(nil)
	apply(t, c, "5", upsert("a/z", "5"))
	flush(t, s)
	states.at(t, s, "5")
}

func TestCommitWritesAllBatches(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1")
	var keys []string
	for batch := range 20 {
		var ops []entry.Op
		for i := range 50 {
			key := fmt.Sprintf("a/%02d-%02d", batch, i)
			keys = append(keys, key)
			ops = append(ops, upsert(key, fmt.Sprint(2+batch), storetest.ColorLabel, "red"))
		}
		apply(t, c, fmt.Sprint(2+batch), ops...)
	}
	flush(t, s)
	fileStates{"21": {keys, keys}}.at(t, s, "21")
}

// TestFileIgnoresModifiedObjects checks that a handler that wrongly modifies an object does not change the file.
func TestFileIgnoresModifiedObjects(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1")
	pod := storetest.Pod("a/x", "uid-a/x", "2", storetest.ColorLabel, "red")
	apply(t, c, "2", entry.Op{Object: pod})
	pod.Labels[storetest.ColorLabel], pod.ResourceVersion = "blue", "1000"
	flush(t, s)
	view, err := s.ViewWith(context.Background(), storetest.Pods, storetest.PodCodec())
	if err != nil {
		t.Fatal(err)
	}
	obj, err := view.Get(context.Background(), "a/x")
	if want := "a/x uid=uid-a/x rv=2 color=red"; err != nil || storetest.Sum(obj) != want {
		t.Errorf("the file has %s, %v; want %s", storetest.Sum(obj), err, want)
	}
	fileStates{"2": {[]string{"a/x"}, []string{"a/x"}}}.at(t, s, "2")
}
