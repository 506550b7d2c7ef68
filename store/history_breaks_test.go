package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// reopenHistory opens the store with a history (the events from which serve answers watches) of at most bound bytes.
func reopenHistory(t *testing.T, h *historyHarness, path string, bound int) {
	t.Helper()
	if h.store != nil {
		if err := h.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	again := openHistory(t, path, bound)
	h.store, h.c = again.store, again.c
}

// wantWatch checks that a watch from rv receives exactly these events, or has expired.
func wantWatch(t *testing.T, h *historyHarness, rv int, want ...string) {
	t.Helper()
	at, err := h.c.History().Find(fmt.Sprint(rv), false)
	if err != nil {
		t.Logf("a watch from %d: %v (oldest %s)", rv, err, h.c.History().Oldest())
		return
	}
	events, _, _, err := h.c.History().After(at, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s@%d", e.Key, e.RV))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a watch from %d receives %v, want %v or expired", rv, got, want)
	}
}

// TestNoHistoryWithoutChanges checks that a watch misses no change after one process has dropped the changelog and the
// next has begun it again, without a commit in between.
func TestNoHistoryWithoutChanges(t *testing.T) {
	path := t.TempDir() + "/s.db"
	h := openHistory(t, path, 1<<20)
	if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	h.rv = 10
	h.list(t.Context(), "a")
	if err := h.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed := h.rv
	h.set("b")
	b := h.rv
	reopenHistory(t, h, path, 0) // as larder does without --serve
	if err := h.c.RetainChanges(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	reopenHistory(t, h, path, 1<<20) // as larder does with --serve
	defer func() { _ = h.store.Close() }()
	wantWatch(t, h, listed, fmt.Sprintf("a/b@%d", b))
}

// TestNoHistoryAfterAContact checks that a watch misses no change after one process has dropped the changelog and the
// next has begun it again, if only Info.LastContact was committed in between.
func TestNoHistoryAfterAContact(t *testing.T) {
	path := t.TempDir() + "/s.db"
	h := openHistory(t, path, 1<<20)
	if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	h.rv = 10
	h.list(t.Context(), "a")
	if err := h.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed := h.rv
	h.set("b")
	b := h.rv
	reopenHistory(t, h, path, 0) // as larder does without --serve
	if err := h.c.RetainChanges(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.Apply(t.Context(), entry.Batch{LastContact: time.Now(), ResourceVersion: fmt.Sprint(h.rv)}); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reopenHistory(t, h, path, 1<<20) // as larder does with --serve
	defer func() { _ = h.store.Close() }()
	wantWatch(t, h, listed, fmt.Sprintf("a/b@%d", b))
	if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	wantWatch(t, h, listed, fmt.Sprintf("a/b@%d", b))
}

// applyLate applies an object that could not be stored earlier, at its old resourceVersion.
func applyLate(t *testing.T, h *historyHarness, name string) {
	t.Helper()
	pod := h.pod(name)
	pod.ResourceVersion, h.truth["a/"+name] = "5", "5"
	if _, err := h.c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: pod}}}); err != nil {
		t.Fatal(err)
	}
}

func listAgain(t *testing.T, h *historyHarness, rv int, all map[string]string) {
	t.Helper()
	r, err := h.c.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err == nil {
		var ops []entry.Op
		for key, rv := range all {
			pod := h.pod(key[2:])
			pod.ResourceVersion = rv
			ops = append(ops, entry.Op{Object: pod})
		}
		_, err = r.Page(t.Context(), podsOf(ops...))
	}
	if err == nil {
		_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(rv)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestListLeavesTheBreak checks a watch after an object was stored with an older resourceVersion than the collection's:
// the watch must receive the object or expire, even after a list at that resourceVersion that finds no difference.
func TestListLeavesTheBreak(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			path := t.TempDir() + "/s.db"
			h := openHistory(t, path, 1<<20)
			if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			h.rv = 10
			h.list(t.Context(), "a")
			if err := h.store.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			applyLate(t, h, "b")
			wantWatch(t, h, h.rv, "a/b@5")
			if restart {
				reopenHistory(t, h, path, 1<<20)
			}
			wantWatch(t, h, h.rv, "a/b@5")
			listAgain(t, h, h.rv, h.truth)
			wantWatch(t, h, h.rv, "a/b@5")
			reopenHistory(t, h, path, 1<<20)
			wantWatch(t, h, h.rv, "a/b@5")
			_ = h.store.Close()
		})
	}
}

// TestListAfterAPartialList checks that a watch expires instead of missing changes that an aborted list had already
// made visible, even if the next list finds no difference.
func TestListAfterAPartialList(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			path := t.TempDir() + "/s.db"
			h := openHistory(t, path, 1<<20)
			if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			h.rv = 10
			h.list(t.Context(), "a")
			listed := h.rv
			if err := h.store.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			a := h.pod("a")
			a.ResourceVersion = "11"
			all := []runtime.Object{a}
			for i := range 40 {
				pod := h.pod(fmt.Sprintf("b%02d", i))
				pod.ResourceVersion = "5"
				pod.Annotations = map[string]string{"x": strings.Repeat("y", 500_000)}
				all = append(all, pod)
			}
			r, err := h.c.BeginReplace(t.Context(), store.ReplaceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Page(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			t.Log("settled while it is shown:", h.c.History().Settled())
			r.Abort()
			if crash {
				reopenHistory(t, h, path, 1<<20)
				wantWatch(t, h, listed, "expired")
			}
			if r, err = h.c.BeginReplace(t.Context(), store.ReplaceOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Page(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(listed)})
				if err != nil {
					t.Fatal(err)
				}
				more = res.More
			}
			p, err := h.c.Page(t.Context(), store.PageOptions{Limit: 3})
			if err != nil || len(p.Entries) != 3 {
				t.Fatal(err, len(p.Entries))
			}
			wantWatch(t, h, listed, "40 objects, or expired")
			_ = h.store.Close()
		})
	}
}

// TestHistoryOfAChangelogThatBegan checks that a changelog that is dropped and begun again has all changes since the
// state at which it began, although a later change of the same object has replaced the first (issue 37).
func TestHistoryOfAChangelogThatBegan(t *testing.T) {
	path := t.TempDir() + "/s.db"
	h := openHistory(t, path, 1<<20)
	retain := func(d time.Duration) {
		t.Helper()
		if err := h.c.RetainChanges(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	retain(time.Hour)
	h.rv = 10
	h.list(t.Context(), "a")
	for range 2 {
		if err := h.store.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.set("a")
	}
	retain(0)
	retain(time.Hour)
	h.set("b")
	reopenHistory(t, h, path, 1<<20)
	before := h.rv
	h.set("a", "b")
	reopenHistory(t, h, path, 1<<20)
	defer func() { _ = h.store.Close() }()
	if _, err := h.c.History().Find(fmt.Sprint(before), false); err != nil {
		t.Errorf("a watch from %d: %v; the oldest is %s", before, err, h.c.History().Oldest())
	}
}
