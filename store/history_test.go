package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/history"
)

// historyHarness is a collection with a history (the events from which serve answers watches), and the server's state.
type historyHarness struct {
	t     testing.TB
	store *store.Store
	c     *store.Collection
	rv    int
	truth map[string]string // resourceVersion of each object on the server, by key
	uids  map[string]string // UID of each existing object, by name
}

func openHistory(t testing.TB, path string, bound int) *historyHarness {
	t.Helper()
	s, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: pods, Residency: store.None, History: bound})
	if err != nil {
		t.Fatal(err)
	}
	return &historyHarness{t: t, store: s, c: c, truth: map[string]string{}, uids: map[string]string{}}
}

// pod returns an object in its newest state. A recreated object has another UID.
func (h *historyHarness) pod(name string) *corev1.Pod {
	if h.uids[name] == "" {
		h.uids[name] = fmt.Sprintf("uid-%s-%d", name, h.rv)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(h.uids[name]),
		ResourceVersion: fmt.Sprint(h.rv)}}
}

// stateSize returns the size of an object's padding at a resourceVersion, so that all states have different sizes.
func stateSize(rv string) int {
	n, _ := strconv.Atoi(rv)
	return 1000 + n
}

func (h *historyHarness) list(ctx context.Context, names ...string) {
	h.t.Helper()
	clear(h.truth)
	clear(h.uids)
	r, err := h.c.BeginReplace(ctx, store.ReplaceOptions{})
	if err == nil && len(names) > 0 {
		var ops []entry.Op
		for _, name := range names {
			ops = append(ops, h.setting(name))
		}
		_, err = r.Page(ctx, podsOf(ops...))
	}
	if err == nil {
		_, err = r.Commit(ctx, entry.Batch{ResourceVersion: fmt.Sprint(h.rv)})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// set applies watch events that create or update these objects; remove applies events that delete them.
func (h *historyHarness) set(names ...string) {
	h.t.Helper()
	var b entry.Batch
	for _, name := range names {
		b.Ops = append(b.Ops, h.setting(name))
	}
	h.apply(b)
}

func (h *historyHarness) remove(names ...string) {
	h.t.Helper()
	var b entry.Batch
	for _, name := range names {
		b.Ops = append(b.Ops, h.removing(name))
	}
	h.apply(b)
}

func (h *historyHarness) setting(name string) entry.Op {
	h.rv++
	h.truth["a/"+name] = fmt.Sprint(h.rv)
	return entry.Op{Object: h.pod(name)}
}

func (h *historyHarness) removing(name string) entry.Op {
	h.rv++
	op := entry.Op{Type: entry.Delete, Object: h.pod(name)}
	delete(h.truth, "a/"+name)
	delete(h.uids, name)
	return op
}

func (h *historyHarness) apply(b entry.Batch) {
	h.t.Helper()
	b.ResourceVersion = fmt.Sprint(h.rv)
	if _, err := h.c.Apply(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
}

// at returns the objects at a position of the history, read in pages of two objects.
func (h *historyHarness) at(from history.Position) (map[string]string, error) {
	state, after := map[string]string{}, ""
	for {
		p, err := h.c.Page(h.t.Context(), store.PageOptions{After: after, Prefix: "a/", Limit: 2})
		if err != nil {
			return nil, err
		}
		undone, err := h.c.History().Undo(from, p.At)
		if err != nil {
			return nil, err
		}
		for _, e := range p.Entries {
			state[e.Key] = e.ResourceVersion
		}
		for key, old := range undone {
			if key <= after || p.More && key > p.Last {
				continue
			}
			if delete(state, key); old != nil {
				state[key] = old.ResourceVersion
			}
		}
		if !p.More {
			return state, nil
		}
		after = p.Last
	}
}

// TestHistoryIsEveryState checks that undoing the changes since a position of the history yields the state at that
// position, and that applying them to that state yields the current state.
func TestHistoryIsEveryState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := openHistory(t, t.TempDir()+"/s.db", 1<<20)
		defer func() { _ = h.store.Close() }()
		h.rv = 10
		h.list(t.Context())
		type moment struct {
			at    history.Position
			rv    string
			state map[string]string
		}
		var moments []moment
		names := []string{"a", "b", "c", "d", "e"}
		rt.Repeat(map[string]func(*rapid.T){
			"set":    func(rt *rapid.T) { h.set(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(rt, "names")...) },
			"remove": func(rt *rapid.T) { h.remove(rapid.SampledFrom(names).Draw(rt, "name")) },
			"flush": func(rt *rapid.T) {
				if err := h.store.Flush(t.Context()); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				at, rv := h.c.History().Now()
				state := map[string]string{}
				for k, v := range h.truth {
					state[k] = v
				}
				moments = append(moments, moment{at, rv, state})
				m := moments[rapid.IntRange(0, len(moments)-1).Draw(rt, "moment")]
				got, err := h.at(m.at)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(m.state, got); diff != "" {
					rt.Fatalf("the state at %s (-want +got):\n%s", m.rv, diff)
				}
				grown, err := h.c.History().Grown(m.at, at, "a/", func(e entry.Entry) int { return stateSize(e.ResourceVersion) })
				if err != nil {
					rt.Fatal(err)
				}
				for _, rv := range m.state {
					grown += stateSize(rv)
				}
				for _, rv := range h.truth {
					grown -= stateSize(rv)
				}
				if grown != 0 {
					rt.Fatalf("since %s Grown returns %d too much", m.rv, grown)
				}
				from, err := h.c.History().Find(m.rv, true)
				if err != nil {
					rt.Fatalf("find %s: %v", m.rv, err)
				}
				for {
					events, next, _, err := h.c.History().After(from, 2)
					if err != nil {
						rt.Fatal(err)
					}
					if len(events) == 0 {
						break
					}
					for _, e := range events {
						if (e.Old != nil) != (got[e.Key] != "") {
							rt.Fatalf("the event of %s at %d has the old object %v, and there was %q", e.Key, e.RV, e.Old, got[e.Key])
						}
						if delete(got, e.Key); e.After() != nil {
							got[e.Key] = e.New.ResourceVersion
						}
					}
					from = next
				}
				if diff := cmp.Diff(h.truth, got); diff != "" {
					rt.Fatalf("after the events since %s (-want +got):\n%s", m.rv, diff)
				}
			},
		})
	})
}

// unreadable returns an object as the reflector passes it if the object cannot be decoded (entry.Undecoded).
func unreadable(obj any) *entry.Undecoded {
	meta := obj.(*corev1.Pod).ObjectMeta
	return entry.NewUndecodable(&entry.UndecodedKind{}, metav1.TypeMeta{}, meta, errors.New("a field of tomorrow"))
}

// TestHistoryOutlivesRestarts checks that the events after any earlier state lead to the current state, across merged
// commits and restarts. Each event must have the right type for a client that knows the earlier state: ADDED, MODIFIED
// or DELETED.
func TestHistoryOutlivesRestarts(t *testing.T) {
	for range 10 {
		rapid.Check(t, func(rt *rapid.T) { historyOutlivesRestarts(t, rt) })
	}
}

func historyOutlivesRestarts(t *testing.T, rt *rapid.T) {
	path := t.TempDir() + "/s.db"
	h := openHistory(t, path, 1<<20)
	defer func() { _ = h.store.Close() }()
	must := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	must(h.c.RetainChanges(t.Context(), time.Hour))
	h.rv = 10
	h.list(t.Context(), rapid.SampledFrom([][]string{nil, {"a"}, {"c", "a"}}).Draw(rt, "listed")...)
	must(h.store.Flush(t.Context())) // the history begins with the commit of the list
	moments, oldest := map[int]map[string]string{h.rv: maps.Clone(h.truth)}, h.rv
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	batch := func(rt *rapid.T) {
		var b entry.Batch
		for range rapid.IntRange(1, 4).Draw(rt, "ops") {
			name := name.Draw(rt, "name")
			if h.truth["a/"+name] != "" && rapid.Bool().Draw(rt, "remove") {
				b.Ops = append(b.Ops, h.removing(name))
				if rapid.Bool().Draw(rt, "unreadable") {
					b.Ops[len(b.Ops)-1].Object = unreadable(b.Ops[len(b.Ops)-1].Object)
				}
			} else {
				b.Ops = append(b.Ops, h.setting(name))
			}
			moments[h.rv] = maps.Clone(h.truth)
		}
		h.apply(b)
	}
	// broken is true if the next commit starts a new history; cut is the resourceVersion of the last such commit.
	broken, cut := false, 0
	committed := func() {
		if broken {
			broken, cut = false, h.rv
		}
	}
	reopen := func(bound int) {
		must(h.store.Close())
		committed()
		maps.DeleteFunc(moments, func(rv int, _ map[string]string) bool { return rv < cut })
		again := openHistory(t, path, bound)
		h.store, h.c = again.store, again.c
	}
	// anew sets the expectations after a break of the history: watches can start only at the newest state. With ambiguous
	// not even there, since clients may know another state at the same resourceVersion.
	anew := func(ambiguous bool) {
		moments, oldest, broken = map[int]map[string]string{}, h.rv+1, true
		if !ambiguous {
			moments[h.rv], oldest = maps.Clone(h.truth), h.rv
		}
	}
	outOfOrder := func(rt *rapid.T) { // applies an object with an old resourceVersion, which could not be stored earlier
		name := name.Draw(rt, "name")
		if h.truth["a/"+name] == "" {
			pod := h.pod(name)
			pod.ResourceVersion, h.truth["a/"+name] = "5", "5"
			_, err := h.c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: pod}}})
			must(err)
			anew(true)
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"batch": batch,
		"flush": func(rt *rapid.T) {
			must(h.store.Flush(t.Context()))
			committed()
		},
		"reopen":       func(*rapid.T) { reopen(1 << 20) },
		"out of order": outOfOrder,
		"open without a history": func(rt *rapid.T) {
			reopen(0)
			batch(rt)
			reopen(1 << 20)
			anew(false)
		},
		"open without a history, out of order": func(rt *rapid.T) {
			reopen(0)
			outOfOrder(rt)
			reopen(1 << 20)
		},
		"keep no changes": func(rt *rapid.T) {
			must(h.c.RetainChanges(t.Context(), 0))
			batch(rt)
			flush := rapid.Bool().Draw(rt, "flush")
			if flush {
				must(h.store.Flush(t.Context()))
			}
			must(h.c.RetainChanges(t.Context(), time.Hour))
			reopen(1 << 20)
			if anew(false); !flush {
				oldest = 0 // uncommitted changes are kept, so any resourceVersion may still be available
			}
		},
		"replace": func(rt *rapid.T) { // recreates an object with another UID, without a delete in between
			if name := name.Draw(rt, "name"); h.truth["a/"+name] != "" {
				h.uids[name] = ""
				h.set(name)
				anew(false)
			}
		},
		"list": func(rt *rapid.T) {
			before, rv := len(h.truth), h.rv
			h.list(t.Context(), rapid.SampledFrom([][]string{nil, {"b"}, {"a", "c"}}).Draw(rt, "listed")...)
			anew(h.rv == rv && (before > 0 || oldest > h.rv))
		},
		"unknown outcome": func(rt *rapid.T) {
			batch(rt)
			failAfterCommits(h.store, func() error { return errors.New("the sync failed") })
			err := h.store.Flush(t.Context())
			failAfterCommits(h.store, nil)
			if !errors.Is(err, store.ErrOutcomeUnknown) {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "batch") {
				batch(rt)
			}
			must(copyAgain(h.store))
			must(h.store.CommitErr())
			committed()
			if rapid.Bool().Draw(rt, "reopen") {
				reopen(1 << 20)
			}
		},
		"": func(rt *rapid.T) {
			if _, err := h.c.History().Find(fmt.Sprint(oldest-1), false); oldest > 0 && !errors.Is(err, history.ErrExpired) {
				rt.Fatalf("a watch from %d begins: %v", oldest-1, err)
			}
			for rv, state := range moments {
				knows := maps.Clone(state)
				at, err := h.c.History().Find(fmt.Sprint(rv), false)
				if err != nil {
					rt.Fatalf("a watch from %d, of %v, begins: %v; the oldest is %s", rv, slices.Sorted(maps.Keys(moments)), err,
						h.c.History().Oldest())
				}
				events, _, _, err := h.c.History().After(at, 1000)
				must(err)
				for _, e := range events {
					if _, known := knows[e.Key]; known != e.Existed(uint64(rv)) {
						rt.Fatalf("a client with the state at %d receives %s at %d as existing before: %t", rv, e.Key, e.RV, !known)
					}
					if delete(knows, e.Key); e.After() != nil {
						knows[e.Key] = e.New.ResourceVersion
					}
				}
				if diff := cmp.Diff(h.truth, knows, cmpopts.EquateEmpty()); diff != "" {
					rt.Fatalf("after the events since %d (-want +got):\n%s", rv, diff)
				}
			}
		},
	})
}

func TestBusyHistoryOutlivesRestarts(t *testing.T) {
	path := t.TempDir() + "/s.db"
	h := openHistory(t, path, 1<<20)
	if err := h.c.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	h.rv = 10
	h.list(t.Context(), "a")
	entered, release := store.GateCommits(h.store).Hold()
	flushed := make(chan error, 1)
	go func() { flushed <- h.store.Flush(t.Context()) }()
	<-entered
	listed := h.rv
	h.set("b")
	release()
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.set("b")
		if err := h.store.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHistory(t, path, 1<<20)
	defer func() { _ = h.store.Close() }()
	if _, err := h.c.History().Find(fmt.Sprint(listed), false); err != nil {
		t.Errorf("a watch from the list, at %d, begins: %v; the oldest is %s", listed, err, h.c.History().Oldest())
	}
}

// TestPagesInOneMemory checks that list pages read into reused memory equal pages read into new memory, and that
// reading allocates nothing once the memory is large enough.
func TestPagesInOneMemory(t *testing.T) {
	h := openHistory(t, t.TempDir()+"/s.db", 1<<20)
	defer func() { _ = h.store.Close() }()
	h.rv = 10
	h.list(t.Context())
	for i := range 20 {
		op := h.setting(fmt.Sprintf("p%02d", i))
		op.Object.(*corev1.Pod).Annotations = map[string]string{"a": strings.Repeat("x", 1000*i)}
		h.apply(entry.Batch{Ops: []entry.Op{op}})
	}
	if err := h.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var memory []byte
	for range 2 {
		for after, more := "", true; more; {
			own, err := h.c.Page(t.Context(), store.PageOptions{After: after, Limit: 3})
			if err != nil {
				t.Fatal(err)
			}
			shared, err := h.c.Page(t.Context(), store.PageOptions{After: after, Limit: 3, Memory: &memory})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(own.Entries, shared.Entries); diff != "" {
				t.Fatal(diff)
			}
			after, more = own.Last, own.More
		}
	}
	if before := cap(memory); before < 3*16_000 || before > 3*25_000 {
		t.Errorf("the memory has grown to %d bytes, for at most three payloads of 19 kB", before)
	}
	first, err := h.c.Page(t.Context(), store.PageOptions{Limit: 3, Memory: &memory})
	if err != nil {
		t.Fatal(err)
	}
	kept := &first.Entries[0].Payload[0]
	again, err := h.c.Page(t.Context(), store.PageOptions{Limit: 3, Memory: &memory})
	if err != nil {
		t.Fatal(err)
	}
	if kept != &again.Entries[0].Payload[0] {
		t.Error("the memory is not used again")
	}
}

// TestPageIsAtItsPosition checks that a list page that is read during writes has the state at its position of the
// history, and that a busy writer does not make the reader retry.
func TestPageIsAtItsPosition(t *testing.T) {
	h := openHistory(t, t.TempDir()+"/s.db", 64<<20)
	defer func() { _ = h.store.Close() }()
	h.rv = 10
	h.list(t.Context(), "a", "b")
	var writing sync.WaitGroup
	defer writing.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writing.Go(func() {
		for ctx.Err() == nil {
			h.set("a", "b")
		}
	})
	for at := ""; !entry.NewerRV(at, "2000"); {
		p, err := h.c.Page(t.Context(), store.PageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at = p.Info.ResourceVersion
		now, _ := h.c.History().Now()
		undone, err := h.c.History().Undo(p.At, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			if old := undone[e.Key]; old != nil && old.ResourceVersion != e.ResourceVersion {
				t.Fatalf("a page has %s at %s, and at its position it is at %s", e.Key, e.ResourceVersion, old.ResourceVersion)
			}
			if entry.NewerRV(e.ResourceVersion, p.Info.ResourceVersion) {
				t.Fatalf("a page of %s has %s at %s", p.Info.ResourceVersion, e.Key, e.ResourceVersion)
			}
		}
	}
}
