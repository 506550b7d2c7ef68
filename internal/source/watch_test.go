package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

type watched struct {
	path string
	keep time.Duration
	st   *store.Store
	c    *store.Collection
	rv   int
	// every is the number of writes in a commit. Default 1.
	every int
}

type failer interface {
	Helper()
	Fatal(args ...any)
}

func openWatched(t failer, path string, keep time.Duration) *watched {
	t.Helper()
	w := &watched{path: path, keep: keep}
	w.open(t)
	return w
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := openWatched(t, filepath.Join(t.TempDir(), "s.db"), time.Hour)
	t.Cleanup(func() { w.close(t) })
	return w
}

func (w *watched) open(t failer) {
	t.Helper()
	var err error
	if w.st, err = store.Open(w.path, store.Options{CommitInterval: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	codec, err := codec.For(&unstructured.Unstructured{})
	if err != nil {
		t.Fatal(err)
	}
	w.c, err = w.st.Collection(context.Background(), w.id(),
		store.CollectionOptions{Codec: codec, Residency: store.None,
			Resource: entry.ResourceInfo{Kind: "Pod", Namespaced: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.c.RetainChanges(context.Background(), w.keep); err != nil {
		t.Fatal(err)
	}
}

func (w *watched) close(t failer) {
	t.Helper()
	if err := w.st.Close(); err != nil {
		t.Fatal(err)
	}
}

func (w *watched) id() entry.Identity {
	return entry.Identity{GroupVersionResource: podsGVR, Representation: entry.Unstructured}
}

func (w *watched) query() Query { return Query{Collection: w.id().ID()} }

// write applies operations in order: "+a/x app=web" writes the pod a/x with that label, and "-a/x" deletes it. A
// recreated pod has a new UID.
func (w *watched) write(t failer, ops ...string) {
	t.Helper()
	for _, op := range ops {
		w.rv++
		what, label, _ := strings.Cut(op[1:], " ")
		namespace, name, _ := strings.Cut(what, "/")
		var labels map[string]string
		if k, v, ok := strings.Cut(label, "="); ok {
			labels = map[string]string{k: v}
		}
		u := pod(namespace, name, labels)
		u.SetResourceVersion(strconv.Itoa(w.rv))
		u.SetUID("u")
		o := entry.Op{Object: u}
		if op[0] == '-' {
			o.Type = entry.Delete
		}
		if _, err := w.c.Apply(context.Background(),
			entry.Batch{Ops: []entry.Op{o}, ResourceVersion: strconv.Itoa(w.rv)}); err != nil {
			t.Fatal(err)
		}
		if w.rv%max(1, w.every) == 0 {
			w.flush(t)
		}
	}
	w.flush(t)
}

func (w *watched) flush(t failer) {
	t.Helper()
	if err := w.st.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (w *watched) last(t failer) uint64 {
	t.Helper()
	kept, err := w.st.Kept(context.Background(), w.id())
	if err != nil {
		t.Fatal(err)
	}
	return kept.Last
}

var errStop = errors.New("enough")

// inShort returns a short form of an event, with its type, key and offset: ADDED a/x 7.
func inShort(e Event) string {
	switch {
	case e.Listed:
		return fmt.Sprintf("LISTED %d", e.Seq)
	case e.Type == Bookmark:
		return fmt.Sprintf("BOOKMARK %d", e.Seq)
	}
	return fmt.Sprintf("%s %s %d", e.Type, e.Entry.Key, e.Seq)
}

// watchUntil returns the events of a watch in the form of inShort, up to the event last or the end of the watch.
func watchUntil(ctx context.Context, src Watcher, q WatchQuery, last string) (all []string, err error) {
	err = src.Watch(ctx, q, func(e Event) error {
		all = append(all, inShort(e))
		if all[len(all)-1] == last {
			return errStop
		}
		return nil
	})
	return all, err
}

func wantEvents(t *testing.T, what string, got []string, err, wantErr error, want ...string) {
	t.Helper()
	if !errors.Is(err, wantErr) {
		t.Errorf("%s: %v, want %v", what, err, wantErr)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func seq(n uint64) *uint64 { return &n }

func TestWatchSince(t *testing.T) {
	w := openWatched(t, filepath.Join(t.TempDir(), "s.db"), time.Hour)
	w.write(t, "+a/x app=web", "+a/y app=web", "+b/z") // 1 to 3
	w.write(t, "+a/x app=db", "+a/n app=web", "-a/y", "+b/z app=db")
	w.close(t)
	st, err := store.Open(w.path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFile(st)
	defer f.Close()
	for _, tc := range []struct {
		what   string
		change func(*WatchQuery)
		want   []string
	}{
		{"everything", func(*WatchQuery) {}, []string{"BOOKMARK 3", "MODIFIED a/x 4", "ADDED a/n 5", "DELETED a/y 6",
			"MODIFIED b/z 7", "BOOKMARK 7"}},
		{"a namespace", func(q *WatchQuery) { q.Namespace = "b" }, []string{"BOOKMARK 3", "MODIFIED b/z 7", "BOOKMARK 7"}},
		{"a name", func(q *WatchQuery) { q.Namespace, q.Name = "a", "y" },
			[]string{"BOOKMARK 3", "DELETED a/y 6", "BOOKMARK 7"}},
		// The watch begins at offset 3. A changed object that does not match the selector may have matched at that offset.
		{"a label", func(q *WatchQuery) { q.Selector = "app=web" },
			[]string{"BOOKMARK 3", "DELETED a/x 4", "ADDED a/n 5", "DELETED a/y 6", "DELETED b/z 7", "BOOKMARK 7"}},
		{"a field", func(q *WatchQuery) { q.Fields = "metadata.name=z" },
			[]string{"BOOKMARK 3", "DELETED a/x 4", "DELETED a/y 6", "MODIFIED b/z 7", "BOOKMARK 7"}},
		{"the end", func(q *WatchQuery) { q.Since = seq(7) }, []string{"BOOKMARK 7"}},
		{"the list", func(q *WatchQuery) { q.Since, q.List, q.Namespace = nil, true, "a" },
			[]string{"BOOKMARK 7", "ADDED a/n 0", "ADDED a/x 0", "LISTED 7"}},
		{"from now on", func(q *WatchQuery) { q.Since = nil }, []string{"BOOKMARK 7"}},
	} {
		q := WatchQuery{Query: w.query(), Since: seq(3)}
		tc.change(&q)
		got, err := watchUntil(t.Context(), f, q, "")
		wantEvents(t, tc.what, got, err, ErrNotLive, tc.want...)
	}
	var since *consumer.SinceError
	if _, err := watchUntil(t.Context(), f, WatchQuery{Query: w.query(), Since: seq(8)}, ""); !errors.As(err, &since) ||
		since.Last != 7 {
		t.Errorf("since what has not been: %v", err)
	}
	if _, err := watchUntil(t.Context(), f, WatchQuery{Query: w.query(), Since: seq(8), List: true}, ""); !errors.Is(err,
		errListSince) {
		t.Errorf("list and since: %v", err)
	}
	if _, err := watchUntil(t.Context(), f, WatchQuery{Query: Query{Collection: "none"}}, ""); !errors.Is(err,
		ErrNoCollection) {
		t.Errorf("no collection: %v", err)
	}
}

// TestWatchSelects checks that a watch with a selector sends an object that begins to match as ADDED, and an object
// that ceases to match as DELETED, as the API server does.
func TestWatchSelects(t *testing.T) {
	w := newWatched(t)
	f := NewFile(w.st)
	w.write(t, "+a/x app=web", "+a/y app=db")
	q := WatchQuery{Query: w.query(), List: true}
	q.Selector = "app=web"
	writes := []string{"+a/x app=db", "+a/y app=web", "+a/y app=web", "-a/x", "-a/y", "+a/z"}
	var got []string
	err := f.Watch(t.Context(), q, func(e Event) error {
		if got = append(got, inShort(e)); e.Type != Bookmark || got[len(got)-1] == "BOOKMARK 2" {
			return nil
		}
		if len(writes) == 0 {
			return errStop
		}
		w.write(t, writes[0])
		writes = writes[1:]
		return nil
	})
	wantEvents(t, "app=web", got, err, errStop, "BOOKMARK 2", "ADDED a/x 0", "LISTED 2", "DELETED a/x 3", "BOOKMARK 3",
		"ADDED a/y 4", "BOOKMARK 4",
		"MODIFIED a/y 5", "BOOKMARK 5", "BOOKMARK 6", "DELETED a/y 7", "BOOKMARK 7", "BOOKMARK 8")
}

// TestWatchSinceListAhead checks a list that includes an object which was created after the list's changelog offset. A
// reader that resumes from that offset must receive the DELETED event when the object no longer matches.
func TestWatchSinceListAhead(t *testing.T) {
	w := newWatched(t)
	w.write(t, "+a/x app=web")
	f := NewFile(w.st)
	q := WatchQuery{Query: w.query(), List: true}
	q.Selector = "app=web"
	var all []string
	err := f.Watch(t.Context(), q, func(e Event) error {
		if len(all) == 0 { // the watch has its offset, and the list has not begun
			w.write(t, "+b/x app=web")
		}
		all = append(all, inShort(e))
		if e.Listed {
			return errStop
		}
		return nil
	})
	if want := []string{"BOOKMARK 1", "ADDED a/x 0", "ADDED b/x 0", "ADDED b/x 0", "LISTED 2"}; !errors.Is(err, errStop) ||
		!slices.Equal(all, want) {
		t.Fatalf("%q, %v; want %q", all, err, want)
	}
	w.write(t, "+b/x")
	since := uint64(2)
	q.List, q.Since = false, &since
	got, err := watchUntil(t.Context(), f, q, "BOOKMARK 3")
	if want := []string{"BOOKMARK 2", "DELETED b/x 3", "BOOKMARK 3"}; !errors.Is(err, errStop) ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestWatchWithoutChangelog(t *testing.T) {
	w := openWatched(t, filepath.Join(t.TempDir(), "s.db"), 0)
	w.write(t, "+a/x")
	f := NewFile(w.st)
	for _, q := range []WatchQuery{{}, {List: true}, {Since: seq(1)}} {
		q.Query = w.query()
		got, err := watchUntil(t.Context(), f, q, "")
		wantEvents(t, "while it is written", got, err, consumer.ErrNotKept)
	}
	if err := w.c.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := watchUntil(t.Context(), f, WatchQuery{Query: w.query(), List: true}, "")
	wantEvents(t, "while nobody writes it", got, err, ErrNotLive, "BOOKMARK 0", "ADDED a/x 0", "LISTED 0")
	_, err = watchUntil(t.Context(), f, WatchQuery{Query: w.query(), Since: seq(1)}, "")
	wantEvents(t, "since", nil, err, consumer.ErrNotKept)
	w.close(t)
}

func TestWatchEnds(t *testing.T) {
	w := newWatched(t)
	f := NewFile(w.st)
	w.write(t, "+a/x")
	why := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := f.Watch(ctx, WatchQuery{Query: w.query()}, func(Event) error { cancel(why); return nil })
	if !errors.Is(err, why) {
		t.Errorf("its context has ended: %v", err)
	}
	err = f.Watch(t.Context(), WatchQuery{Query: w.query()}, func(Event) error { return w.c.Close() })
	if !errors.Is(err, ErrNotLive) {
		t.Errorf("its collection was closed: %v", err)
	}
}
