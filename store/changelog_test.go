package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

func cursorOf(t *testing.T, c *store.Collection, name string) *store.Cursor {
	t.Helper()
	f, err := c.OpenCursor(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// changeText formats a change as + or -, then the object's key, UID, resourceVersion and labels.
func changeText(c consumer.Change) string {
	verb := "+"
	if c.Type == entry.Delete {
		verb = "-"
	}
	if c.Object == nil {
		return fmt.Sprintf("%s %s uid=%s rv=%s", verb, c.Key, c.UID, c.ResourceVersion)
	}
	return verb + " " + storetest.Sum(c.Object)
}

// catchUp reads and acknowledges all changes that the durable handler has not acknowledged, and returns them as text.
func catchUp(t *testing.T, f *store.Cursor) (all []string) {
	t.Helper()
	position, resets, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		p, next, err := f.Read(context.Background(), position)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Changes {
			all = append(all, changeText(c))
		}
		position, more = next, p.More
	}
	if err := f.Acknowledge(position, resets); err != nil {
		t.Fatal(err)
	}
	return all
}

func object(p *corev1.Pod) entry.Op { return entry.Op{Object: p} }

func sound(t *testing.T, s *store.Store) {
	t.Helper()
	report, err := s.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("check: %v, %q", err, report.Problems)
	}
}

func TestCursorReadsChanges(t *testing.T) {
	for _, interval := range []time.Duration{-1, 0} {
		t.Run(fmt.Sprint("commit ", interval), func(t *testing.T) {
			s := storetest.Open(t, store.Every(store.Options{}, interval))
			c := openPods(t, s, byNamespaceAndColor)
			apply(t, c, "3", upsert("a/x", "1"), upsert("a/y", "2"), upsert("a/z", "3"))
			flush(t, s)
			f := cursorOf(t, c, "h")
			wantStrings(t, "a new handler receives", catchUp(t, f), "+ a/x uid=uid-a/x rv=1", "+ a/y uid=uid-a/y rv=2",
				"+ a/z uid=uid-a/z rv=3")
			wantStrings(t, "then", catchUp(t, f))
			apply(t, c, "5", upsert("a/y", "4"), upsert("a/x", "5"))
			apply(t, c, "6", upsert("a/x", "6"))
			apply(t, c, "8", remove("a/z", "7"), object(storetest.Pod("a/z", "another", "8")))
			flush(t, s)
			want := []string{"+ a/y uid=uid-a/y rv=4", "+ a/x uid=uid-a/x rv=6", "- a/z uid=uid-a/z rv=7",
				"+ a/z uid=another rv=8"}
			wantStrings(t, "after changes", catchUp(t, f), want...)
			apply(t, c, "9", remove("a/x", "9"))
			flush(t, s)
			wantStrings(t, "after a delete", catchUp(t, f), "- a/x uid=uid-a/x rv=9")
			// The server sent no delete of the previous object under this key.
			apply(t, c, "11", object(storetest.Pod("a/z", "a third", "11")))
			flush(t, s)
			wantStrings(t, "after another object", catchUp(t, f), "- a/z uid=another rv=8", "+ a/z uid=a third rv=11")
			sound(t, s)
		})
	}
}

// TestCursorReadsTheLastState checks that a delete carries the object's last state, even if it was never committed.
func TestCursorReadsTheLastState(t *testing.T) {
	for _, undecoded := range []bool{false, true} {
		t.Run(fmt.Sprint("undecoded ", undecoded), func(t *testing.T) {
			s := storetest.Open(t, store.Options{})
			c := openPods(t, s, nil)
			apply(t, c, "1", upsert("a/x", "1"), upsert("a/y", "1"), upsert("a/z", "1"))
			flush(t, s)
			f := cursorOf(t, c, "h")
			catchUp(t, f)
			in := store.Interface(c)
			if undecoded {
				in = storetest.Undecoded(c)
			}
			apply(t, in, "2", upsert("a/x", "2"), upsert("a/y", "2"))
			apply(t, in, "3", remove("a/x", "3"), remove("a/y", "3"))
			apply(t, in, "4", object(storetest.Pod("a/y", "b", "4")), object(storetest.Pod("new", "n", "4")))
			apply(t, in, "5", entry.Op{Type: entry.Delete, Object: storetest.Pod("a/y", "b", "5")},
				entry.Op{Type: entry.Delete, Object: storetest.Pod("new", "n", "5")})
			apply(t, in, "6", object(storetest.Pod("a/y", "c", "6")))
			flush(t, s)
			wantStrings(t, "received", catchUp(t, f), "- a/x uid=uid-a/x rv=3", "- a/y uid=uid-a/y rv=3", "+ a/y uid=c rv=6")
			sound(t, s)
		})
	}
}

func TestCursorOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	open := func() (*store.Store, *store.Collection) {
		s, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s, openPods(t, s, nil)
	}
	s, c := open()
	apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
	f := cursorOf(t, c, "h")
	flush(t, s)
	if got := catchUp(t, f); len(got) != 2 {
		t.Fatalf("received %q", got)
	}
	apply(t, c, "4", remove("a/x", "3"), upsert("a/y", "4"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, c = open()
	f = cursorOf(t, c, "h")
	wantStrings(t, "after the restart", catchUp(t, f), "- a/x uid=uid-a/x rv=3", "+ a/y uid=uid-a/y rv=4")
	if _, err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "after a compaction", catchUp(t, f))
	sound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestChangelogIsDroppedWithItsLastHandler(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	c := openPods(t, s, nil)
	one, two := cursorOf(t, c, "one"), cursorOf(t, c, "two")
	if _, err := c.OpenCursor(ctx, "one"); !errors.Is(err, consumer.ErrOpen) {
		t.Errorf("registered twice: %v", err)
	}
	if err := c.ForgetCursor(ctx, "one"); !errors.Is(err, consumer.ErrOpen) {
		t.Errorf("forgotten while it is registered: %v", err)
	}
	if err := c.ForgetCursor(ctx, "three"); !errors.Is(err, consumer.ErrNone) {
		t.Errorf("forgotten although there is none: %v", err)
	}
	apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
	apply(t, c, "3", remove("a/x", "3"))
	catchUp(t, one)
	flush(t, s)
	one.Close()
	if err := c.ForgetCursor(ctx, "two"); !errors.Is(err, consumer.ErrOpen) {
		t.Error(err)
	}
	two.Close()
	if err := c.ForgetCursor(ctx, "two"); err != nil {
		t.Fatal(err)
	}
	if n := tombstones(c); n != 0 {
		t.Errorf("%d tombstones are left that all handlers have passed", n)
	}
	sound(t, s)
	if err := c.ForgetCursor(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	infos, err := c.Cursors(ctx)
	if err != nil || len(infos) != 0 {
		t.Errorf("handlers: %v, %v", infos, err)
	}
	sound(t, s)
	// A durable handler that is registered again after ForgetCursor starts like a new handler.
	wantStrings(t, "received", catchUp(t, cursorOf(t, c, "one")), "+ a/y uid=uid-a/y rv=2")
}

// TestCursorBehindTheTombstoneLimit checks that a durable handler starts over if tombstones after its position were
// dropped because of the limit, and that Position.Why says so.
func TestCursorBehindTheTombstoneLimit(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, nil)
	store.SetTombstoneLimit(c, 3)
	slow, fast := cursorOf(t, c, "slow"), cursorOf(t, c, "fast")
	for n := range 6 {
		apply(t, c, "1", upsert(fmt.Sprint("a/", n), fmt.Sprint(n+1)))
	}
	flush(t, s)
	catchUp(t, slow)
	catchUp(t, fast)
	flush(t, s)
	for n := range 5 {
		apply(t, c, "1", remove(fmt.Sprint("a/", n), fmt.Sprint(n+10)))
		flush(t, s)
		catchUp(t, fast)
	}
	flush(t, s)
	position, resets, err := slow.Position()
	if err != nil || !position.Replaying || position.Why != consumer.ResetBehind || resets != 1 {
		t.Fatalf("the slow handler is at %+v after %d resets, %v", position, resets, err)
	}
	if err := slow.Acknowledge(consumer.Position{Seq: 1}, 0); !errors.Is(err, consumer.ErrReset) {
		t.Errorf("acknowledged what was before the reset: %v", err)
	}
	wantStrings(t, "the slow handler receives", catchUp(t, slow), "+ a/5 uid=uid-a/5 rv=6", "- a/4 uid=uid-a/4 rv=14")
	if position, resets, err := fast.Position(); err != nil || position.Why != consumer.ResetNew || resets != 0 {
		t.Errorf("the fast handler was set back too: %+v, %d resets, %v", position, resets, err)
	}
	sound(t, s)
}

// TestChangelogAndARewritingList checks that a list with ReplaceOptions.Rewrite, which replaces all stored objects,
// reports only objects that differ from the stored ones.
func TestChangelogAndARewritingList(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "3", upsert("a/x", "1"), upsert("a/y", "2"), upsert("a/z", "3"))
	f := cursorOf(t, c, "h")
	catchUp(t, f)
	relist(t, c, store.ReplaceOptions{Rewrite: true}, "4", upsert("a/x", "1"), upsert("a/y", "2", "default", "added"),
		object(storetest.Pod("a/z", "other", "4")))
	got := catchUp(t, f)
	slices.Sort(got)
	wantStrings(t, "received", got, "+ a/y uid=uid-a/y rv=2 default=added",
		"+ a/z uid=other rv=4", "- a/z uid=uid-a/z rv=3")
	sound(t, s)
}

// TestChangelogOmitsEqualObjects checks that an object that a list stores again in another encoding keeps its sequence
// number: durable handlers must not receive it as a change.
func TestChangelogOmitsEqualObjects(t *testing.T) {
	with := func(args []any) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"args": args},
			"metadata": map[string]any{"namespace": "a", "name": "x", "uid": "x", "resourceVersion": "1"},
		}}
	}
	s := storetest.Open(t, store.Options{})
	id := entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Representation: entry.Unstructured}
	c, err := s.Collection(context.Background(), id, store.CollectionOptions{Codec: codec.Unstructured()})
	if err != nil {
		t.Fatal(err)
	}
	list := func(o store.ReplaceOptions, rv string, obj runtime.Object) []entry.Change {
		t.Helper()
		defer flush(t, s)
		r, err := c.BeginReplace(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Page(context.Background(), []runtime.Object{obj})
		if err != nil {
			t.Fatal(err)
		}
		return append(res.Changes, commitAll(t, r, rv)...)
	}
	list(store.ReplaceOptions{}, "3", with(nil))
	f := cursorOf(t, c, "h")
	catchUp(t, f)
	for rv, args := range map[string][]any{"4": {}, "5": nil} {
		if changes := list(store.ReplaceOptions{Rewrite: true}, rv, with(args)); len(changes) > 0 {
			t.Errorf("the list at %s has changed %+v", rv, changes)
		}
		if got := catchUp(t, f); len(got) > 0 {
			t.Errorf("after the list at %s the handler receives %q", rv, got)
		}
	}
	sound(t, s)
}

func TestChangelogOverAnInterruptedList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := openPods(t, s, nil)
	f := cursorOf(t, c, "h")
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Page(context.Background(), podsOf(upsert("a/x", "1"), upsert("a/y", "2"))); err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	if got := catchUp(t, f); len(got) != 2 {
		t.Fatalf("received %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(path, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c = openPods(t, s, nil)
	f = cursorOf(t, c, "h")
	changes := relist(t, c, store.ReplaceOptions{}, "5", upsert("a/y", "2"))
	wantStrings(t, "received", catchUp(t, f), "- a/x uid=uid-a/x rv=1")
	// The changes of the interrupted list were not reported in this process, so the new list reports exactly its objects.
	if len(changes) != 1 || changes[0].Type != cache.Added || changes[0].Key != "a/y" || changes[0].Old != nil {
		t.Errorf("the list has changed %+v", changes)
	}
	sound(t, s)
}
