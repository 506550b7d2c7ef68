package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/buffer"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/informer/internal/delivery/deliverytest"
)

// plainPending is a simple model of a handler's queue (type pending): a slice that is searched from the end.
type plainPending struct {
	threshold int
	items     []plainItem
	regime    int // regime counts how often the queue has shrunk below the threshold for merging
	merged    int
}

type plainItem struct {
	Call
	regime int // regime is the queue's regime plus 1 when the call was queued; 0 below the threshold
}

func (q *plainPending) put(n Call) {
	item := plainItem{Call: n}
	if len(q.items) >= q.threshold {
		item.regime = q.regime + 1
		for i := len(q.items) - 1; i >= 0; i-- {
			last := &q.items[i]
			if last.Key != n.Key {
				continue
			}
			if n.Type == cache.Updated && last.Type == cache.Updated && last.regime == item.regime {
				old := last.Old
				if last.resync && n.resync {
					old = n.Old
				}
				last.Old, last.New = old, n.New
				last.resync = last.resync && n.resync
				last.Firsts += n.Firsts
				q.merged++
				return
			}
			break
		}
	}
	q.items = append(q.items, item)
}

func (q *plainPending) take() (n Call, ok bool) {
	if len(q.items) == 0 {
		return n, false
	}
	n, q.items = q.items[0].Call, q.items[1:]
	if len(q.items) == q.threshold-1 {
		q.regime++
	}
	return n, true
}

type queueModel struct {
	q     pending
	plain plainPending
	state map[string]int // state has the current object of each key, as a number
	last  int            // last is the highest number given to an object

	happened, delivered map[string][]Call
	deletes             int
	firsts              int32
}

// TestPendingModel also checks that the queue loses no event that must not be merged, and does not exceed its bound.
func TestPendingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(1, 20).Draw(t, "threshold")
		m := &queueModel{
			q: newPending(threshold), plain: plainPending{threshold: threshold}, state: map[string]int{},
			happened: map[string][]Call{}, delivered: map[string][]Call{},
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
			if err := deliverytest.LegalMerging(callsOf(happened), callsOf(m.delivered[key])); err != nil {
				t.Errorf("key %s: %v\nhappened  %v\ndelivered %v", key, err, happened, m.delivered[key])
			}
		}
		if len(m.q.latest) != 0 {
			t.Errorf("an empty queue remembers %v", m.q.latest)
		}
	})
}

func (m *queueModel) put(n Call) {
	m.firsts += n.Firsts
	m.happened[n.Key] = append(m.happened[n.Key], n)
	m.q.put(n)
	m.plain.put(n)
}

func (m *queueModel) change(key string, first bool) {
	m.last++
	n := Call{Type: cache.Added, Key: key, New: m.last, Initial: first}
	if old, ok := m.state[key]; ok {
		n = Call{Type: cache.Updated, Key: key, Old: old, New: m.last}
	}
	if first {
		n.Firsts = 1
	}
	m.state[key] = m.last
	m.put(n)
}

func (m *queueModel) delete(key string) {
	if old, ok := m.state[key]; ok {
		delete(m.state, key)
		m.deletes++
		m.put(Call{Type: cache.Deleted, Key: key, Old: old})
	}
}

func (m *queueModel) resync() {
	for _, key := range slices.Sorted(maps.Keys(m.state)) {
		m.last++ // a resync reads each object anew, as a new Go object
		m.state[key] = m.last
		m.put(Call{Type: cache.Updated, Key: key, Old: m.last, New: m.last, resync: true})
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
		m.firsts -= got.Firsts
		m.delivered[got.Key] = append(m.delivered[got.Key], got)
		if got.Type == cache.Deleted {
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

func callsOf(ns []Call) (out []deliverytest.Call) {
	for _, n := range ns {
		out = append(out, deliverytest.Call{Type: n.Type, Old: n.Old, New: n.New, Initial: n.Initial, Resync: n.resync})
	}
	return out
}

// TestPendingKeepsEverything checks a queue below the merge threshold, even if it was above the threshold before.
func TestPendingKeepsEverything(t *testing.T) {
	q := newPending(4)
	update := func(old int) { q.put(Call{Type: cache.Updated, Key: "a", Old: old, New: old + 1}) }
	for old := range 8 { // updates 0 to 3 are below the threshold and do not merge; 4 to 7 merge
		update(old)
	}
	for range 2 {
		q.take()
	}
	update(8)  // appended, because the queue is below the threshold again
	update(9)  // appended, because the previous update was queued below the threshold
	update(10) // merged into the previous update
	var got []Call
	for n, ok := q.take(); ok; n, ok = q.take() {
		got = append(got, n)
	}
	want := [][2]int{{2, 3}, {3, 4}, {4, 8}, {8, 9}, {9, 11}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i, n := range got {
		if n.Old != want[i][0] || n.New != want[i][1] {
			t.Errorf("notification %d: %v to %v, want %v", i, n.Old, n.New, want[i])
		}
	}
	if q.merged != 4 {
		t.Errorf("%d merged, want 4", q.merged)
	}
}

func TestPendingShrinks(t *testing.T) {
	q := newPending(mergeThreshold)
	for n := range 100_000 {
		q.put(Call{Type: cache.Updated, Key: fmt.Sprint(n)})
	}
	for q.len() > 10 {
		q.take()
	}
	if len(q.ring) > mergeThreshold || len(q.latest) > 10 {
		t.Errorf("10 are pending: capacity %d, %d in latest", len(q.ring), len(q.latest))
	}
}

// BenchmarkPending compares a handler's queue with client-go's ring buffer, which never merges calls.
func BenchmarkPending(b *testing.B) {
	key := "namespace/name"
	n := Call{Type: cache.Updated, Key: key, Old: &key, New: &key}
	for _, depth := range []int{1, 500} {
		ring := buffer.NewRing[Call](buffer.RingOptions{InitialSize: 16, NormalSize: 1024})
		merging := newPending(mergeThreshold)
		for name, q := range map[string]struct{ put, take func() }{
			"ring":    {func() { ring.WriteOne(n) }, func() { ring.ReadOne() }},
			"pending": {func() { merging.put(n) }, func() { merging.take() }},
		} {
			b.Run(fmt.Sprintf("%s/depth=%d", name, depth), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for range depth {
						q.put()
					}
					for range depth {
						q.take()
					}
				}
			})
		}
	}
}
