package informer

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/buffer"
	"pgregory.net/rapid"
)

// plainPending is what pending must be: a slice, searched from the back.
type plainPending struct {
	threshold int
	items     []plainItem
	regime    int // how often the threshold was crossed
	merged    int
}

type plainItem struct {
	notification
	regime int // 0 if it was queued below the threshold
}

func (q *plainPending) put(n notification) {
	item := plainItem{notification: n}
	if len(q.items) >= q.threshold {
		item.regime = q.regime + 1
		for i := len(q.items) - 1; i >= 0; i-- {
			last := &q.items[i]
			if last.key != n.key {
				continue
			}
			if n.typ == cache.Updated && last.typ == cache.Updated && last.regime == item.regime {
				old := last.old
				if last.resync && n.resync {
					old = n.old
				}
				last.old, last.new = old, n.new
				last.resync = last.resync && n.resync
				last.firsts += n.firsts
				q.merged++
				return
			}
			break
		}
	}
	q.items = append(q.items, item)
}

func (q *plainPending) take() (n notification, ok bool) {
	if len(q.items) == 0 {
		return n, false
	}
	n, q.items = q.items[0].notification, q.items[1:]
	if len(q.items) == q.threshold-1 {
		q.regime++
	}
	return n, true
}

// queueModel drives a queue with the events of a few objects.
type queueModel struct {
	q     pending
	plain plainPending
	state map[string]int // the object that exists under a key
	last  int            // the newest state of any object

	happened, delivered map[string][]notification
	deletes             int // that are pending
	firsts              int32
}

// TestPendingModel compares the queue with a plain one, and says apart from that what it must not do: lose an event
// that may not merge, grow beyond its bound.
func TestPendingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(1, 20).Draw(t, "threshold")
		m := &queueModel{
			q: newPending(threshold), plain: plainPending{threshold: threshold}, state: map[string]int{},
			happened: map[string][]notification{}, delivered: map[string][]notification{},
		}
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { m.change(keys.Draw(t, "key"), rapid.Bool().Draw(t, "first")) },
			"changes": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "n") {
					m.change(keys.Draw(t, "key"), false)
				}
			},
			"delete": func(t *rapid.T) { m.delete(keys.Draw(t, "key")) },
			"resync": func(*rapid.T) { m.resync() },
			"take": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*threshold).Draw(t, "n") {
					m.take(t)
				}
			},
			"": m.check,
		})
		for m.q.len() > 0 {
			m.take(t)
		}
		m.take(t)
		if m.firsts != 0 {
			t.Errorf("%d notifications of the first sync were not delivered", m.firsts)
		}
		for key, happened := range m.happened {
			if err := LegalMerging(toldOf(happened), toldOf(m.delivered[key])); err != nil {
				t.Errorf("key %s: %v\nhappened  %v\ndelivered %v", key, err, happened, m.delivered[key])
			}
		}
		if len(m.q.latest) != 0 {
			t.Errorf("an empty queue remembers %v", m.q.latest)
		}
	})
}

func (m *queueModel) put(n notification) {
	m.firsts += n.firsts
	m.happened[n.key] = append(m.happened[n.key], n)
	m.q.put(n)
	m.plain.put(n)
}

// change adds or updates an object.
func (m *queueModel) change(key string, first bool) {
	m.last++
	n := notification{typ: cache.Added, key: key, new: m.last, initial: first}
	if old, ok := m.state[key]; ok {
		n = notification{typ: cache.Updated, key: key, old: old, new: m.last}
	}
	if first {
		n.firsts = 1
	}
	m.state[key] = m.last
	m.put(n)
}

func (m *queueModel) delete(key string) {
	if old, ok := m.state[key]; ok {
		delete(m.state, key)
		m.deletes++
		m.put(notification{typ: cache.Deleted, key: key, old: old})
	}
}

func (m *queueModel) resync() {
	for _, key := range slices.Sorted(maps.Keys(m.state)) {
		m.last++ // the object is read anew
		m.state[key] = m.last
		m.put(notification{typ: cache.Updated, key: key, old: m.last, new: m.last, resync: true})
	}
}

func (m *queueModel) take(t *rapid.T) {
	got, ok := m.q.take()
	want, wantOK := m.plain.take()
	got.latest = false
	if got != want || ok != wantOK {
		t.Fatalf("took %+v %v, want %+v %v", got, ok, want, wantOK)
	}
	if ok {
		m.firsts -= got.firsts
		m.delivered[got.key] = append(m.delivered[got.key], got)
		if got.typ == cache.Deleted {
			m.deletes--
		}
	}
}

func (m *queueModel) check(t *rapid.T) {
	if m.q.len() != len(m.plain.items) || m.q.merged != m.plain.merged {
		t.Fatalf("%d pending, %d merged; want %d, %d", m.q.len(), m.q.merged, len(m.plain.items), m.plain.merged)
	}
	if bound := m.q.threshold + 2*len(m.state) + 3*m.deletes; m.q.len() > bound {
		t.Fatalf("%d pending; the bound is %d", m.q.len(), bound)
	}
	if len(m.q.latest) > m.q.len() {
		t.Fatalf("%d pending, %d remembered", m.q.len(), len(m.q.latest))
	}
}

// Told is a notification, as LegalMerging compares them. No two updates of an object have the same New.
type Told struct {
	Type            cache.DeltaType
	Old, New        any
	Initial, Resync bool
}

func toldOf(ns []notification) (out []Told) {
	for _, n := range ns {
		out = append(out, Told{n.typ, n.old, n.new, n.initial, n.resync})
	}
	return out
}

// LegalMerging reports whether delivered is happened, both of one key, with some runs of updates told as one.
func LegalMerging(happened, delivered []Told) error {
	for i, d := range delivered {
		if len(happened) == 0 {
			return fmt.Errorf("notification %d (%v) never happened", i, d)
		}
		run := 1
		if d.Type == cache.Updated {
			for run < len(happened) && happened[run-1].New != d.New && happened[run].Type == cache.Updated {
				run++
			}
		}
		first, last := happened[0], happened[run-1]
		for j := 1; j < run && first.Resync; j++ { // what happened begins after them
			first = happened[j]
		}
		if d.Type != first.Type || d.Initial != first.Initial || d.Old != first.Old || d.New != last.New ||
			d.Resync != first.Resync {
			return fmt.Errorf("notification %d is %v, what happened is %v", i, d, happened[:run])
		}
		happened = happened[run:]
	}
	if len(happened) > 0 {
		return fmt.Errorf("%v were not delivered", happened)
	}
	return nil
}

// TestPendingKeepsEverything: below the threshold nothing merges, whatever was at or above it before.
func TestPendingKeepsEverything(t *testing.T) {
	q := newPending(4)
	update := func(old int) { q.put(notification{typ: cache.Updated, key: "a", old: old, new: old + 1}) }
	for old := range 8 { // 0 to 3 stand alone, 4 to 7 merge
		update(old)
	}
	for range 2 {
		q.take()
	}
	update(8)  // alone, at the end: the threshold has been left
	update(9)  // alone, since the one before was queued below it
	update(10) // merges
	var got []notification
	for n, ok := q.take(); ok; n, ok = q.take() {
		got = append(got, n)
	}
	want := [][2]int{{2, 3}, {3, 4}, {4, 8}, {8, 9}, {9, 11}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i, n := range got {
		if n.old != want[i][0] || n.new != want[i][1] {
			t.Errorf("notification %d: %v to %v, want %v", i, n.old, n.new, want[i])
		}
	}
	if q.merged != 4 {
		t.Errorf("%d merged, want 4", q.merged)
	}
}

// TestPendingGivesRoomBack: what a burst has taken does not stay.
func TestPendingGivesRoomBack(t *testing.T) {
	q := newPending(mergeThreshold)
	for n := range 100_000 {
		q.put(notification{typ: cache.Updated, key: fmt.Sprint(n)})
	}
	for q.len() > 10 {
		q.take()
	}
	if len(q.ring) > mergeThreshold || len(q.latest) > 10 {
		t.Errorf("10 are pending: room for %d, %d remembered", len(q.ring), len(q.latest))
	}
}

// BenchmarkPending compares the queue with the ring that never merges.
func BenchmarkPending(b *testing.B) {
	key := "namespace/name"
	n := notification{typ: cache.Updated, key: key, old: &key, new: &key}
	for _, depth := range []int{1, 500} {
		b.Run(fmt.Sprintf("ring/depth=%d", depth), func(b *testing.B) {
			q := buffer.NewRing[notification](buffer.RingOptions{InitialSize: 16, NormalSize: 1024})
			b.ReportAllocs()
			for b.Loop() {
				for range depth {
					q.WriteOne(n)
				}
				for range depth {
					q.ReadOne()
				}
			}
		})
		b.Run(fmt.Sprintf("pending/depth=%d", depth), func(b *testing.B) {
			q := newPending(mergeThreshold)
			b.ReportAllocs()
			for b.Loop() {
				for range depth {
					q.put(n)
				}
				for range depth {
					q.take()
				}
			}
		})
	}
	b.Run("pending/merging", func(b *testing.B) {
		q := newPending(mergeThreshold)
		for range mergeThreshold {
			q.put(n)
		}
		b.ReportAllocs()
		for b.Loop() {
			q.put(n)
		}
	})
}
