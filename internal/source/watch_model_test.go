package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
)

// replica is the state of a collection that a watch's reader computes from the events.
type replica struct {
	objects map[string]string // objects has the resourceVersions of the objects, by key
	newest  map[string]int    // newest has the highest resourceVersion received so far, by key
	reached uint64
	events  int
}

func (r *replica) take(t failer, e Event) {
	t.Helper()
	r.reached = max(r.reached, e.Seq)
	if e.Type == Bookmark {
		return
	}
	r.events++
	key, rv := e.Entry.Key, e.Entry.ResourceVersion
	n, err := strconv.Atoi(rv)
	if err != nil || n < r.newest[key] {
		t.Fatal(fmt.Sprintf("%s: %s after one of resourceVersion %d, %v", inShort(e), rv, r.newest[key], err))
	}
	r.newest[key] = n
	if e.Type == Deleted {
		delete(r.objects, key)
	} else {
		r.objects[key] = rv
	}
}

// watchModel is a model test of watches. A store is written, closed and opened, while a reader watches it, disconnects,
// and resumes after the offset of its last event.
type watchModel struct {
	*rapid.T
	w      *watched
	query  Query
	socket bool
	r      replica
}

var modelOps = []string{"+a/x", "+a/x app=web", "+a/y app=web", "+a/y app=db", "-a/x", "-a/y", "+b/x app=web", "+b/x",
	"-b/x", "+b/z app=web", "-b/z"}

func (m *watchModel) source() (src Watcher, closeAll func()) {
	f := NewFile(m.w.st)
	if !m.socket {
		return f, func() {}
	}
	l, err := Listen(m.w.path)
	if err != nil {
		m.Fatal(err)
	}
	server := NewServer(holding{f}, me)
	server.Start(l)
	client, _, err := Dial(context.Background(), m.w.path)
	if err != nil {
		m.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			m.Fatal(err)
		}
	}
}

// watch reads events until enough returns true or ctx ends with errStop. The first watch begins with a list. Later
// watches resume after the last offset.
func (m *watchModel) watch(ctx context.Context, src Watcher, enough func(Event) bool) {
	q := WatchQuery{Query: m.query, List: m.r.reached == 0}
	if q.List {
		m.r.objects, m.r.newest = map[string]string{}, map[string]int{}
	} else {
		q.Since = &m.r.reached
	}
	listing := q.List
	err := src.Watch(ctx, q, func(e Event) error {
		if listing && e.Type == Bookmark && !e.Listed {
			return nil // without the whole list there is no offset to resume from
		}
		listing = false
		m.r.take(m.T, e)
		if enough(e) {
			return errStop
		}
		return nil
	})
	if !errors.Is(err, errStop) {
		m.Fatal(err)
	}
}

func (m *watchModel) segment() {
	ops := rapid.SliceOfN(rapid.SampledFrom(modelOps), 1, 6).Draw(m.T, "ops")
	most := rapid.IntRange(0, 6).Draw(m.T, "events")
	src, closeAll := m.source()
	defer closeAll()
	ctx, cancel := context.WithCancelCause(context.Background())
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer cancel(errStop)
		m.w.write(m, ops...)
	}()
	events := m.r.events
	m.watch(ctx, src, func(Event) bool { return m.r.events-events >= most && m.r.reached > 0 })
	<-written
	if rapid.Bool().Draw(m.T, "restart") {
		closeAll()
		m.w.close(m)
		m.w.open(m)
	}
}

func (m *watchModel) selected() map[string]string {
	want := map[string]string{}
	err := NewFile(m.w.st).Entries(context.Background(), m.query, func(e entry.Entry) error {
		want[e.Key] = e.ResourceVersion
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
	return want
}

// TestWatchModel checks that the events of a list and of later watches lead a reader to the store's final state,
// however often the reader or the store is restarted.
func TestWatchModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		m := &watchModel{T: rt, w: openWatched(rt, filepath.Join(dir, "s.db"), time.Hour),
			socket: rapid.Bool().Draw(rt, "socket")}
		m.query = rapid.SampledFrom([]Query{
			{}, {Namespace: "a"}, {Namespace: "b", Name: "x"}, {Selector: "app=web"}, {Selector: "app!=web"},
			{Fields: "metadata.name=x"},
			{Namespace: "b", Selector: "app=web"},
		}).Draw(rt, "query")
		m.query.Collection = m.w.id().ID()
		m.w.every = rapid.SampledFrom([]int{2, 3, 6}).Draw(rt, "commit after")
		m.w.write(rt, rapid.SliceOfN(rapid.SampledFrom(modelOps), 0, 5).Draw(rt, "before")...)
		for range rapid.IntRange(1, 3).Draw(rt, "segments") {
			m.segment()
		}
		src, closeAll := m.source()
		last := m.w.last(rt)
		m.watch(context.Background(), src, func(e Event) bool { return e.Type == Bookmark && e.Seq >= last })
		closeAll()
		if want := m.selected(); !maps.Equal(m.r.objects, want) {
			rt.Errorf("the reader holds %v, and the store has %v", m.r.objects, want)
		}
		m.w.close(rt)
	})
}
