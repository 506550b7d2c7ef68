package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

const (
	// coldFill is how full bbolt packs the pages of objects that come in key order.
	coldFill = 0.95
	// coldEvents is how many events wait for the next page before they are stored by themselves.
	coldEvents = 1000
)

// coldReplace stores each page at once. Nobody reads the collection yet, and
// it is not complete before the commit.
type coldReplace struct {
	r *replacement
	// events wait for the next transaction.
	events []Op
	// gone are the resourceVersions of the deletes that were watched: a page
	// that was read before one must not bring the object back.
	gone map[string]string
}

func (m *coldReplace) page(ctx context.Context, items []Op) (Result, error) {
	return m.flush(ctx, items, nil)
}

// event keeps the event for the next page, whose result has its change.
func (m *coldReplace) event(ctx context.Context, op Op) (res Result, err error) {
	res.Staged = true
	if len(m.events) >= coldEvents {
		if res, err = m.flush(ctx, nil, nil); err != nil {
			return res, err
		}
	}
	m.events = append(m.events, op)
	return res, nil
}

func (m *coldReplace) commit(ctx context.Context, b Batch) (Result, error) {
	return m.flush(ctx, nil, func(w *writer) error { return m.r.finish(&w.state, m.r.o, b, w.held) })
}

func (m *coldReplace) abort() {}

// flush stores the items of a page, then the events that wait, in one transaction.
func (m *coldReplace) flush(ctx context.Context, items []Op, finish func(*writer) error) (Result, error) {
	c := m.r.c
	for {
		set := c.set.Load()
		page, events := c.encoder(set).encode(items), c.encoder(set).encode(m.events)
		skipped := append(page.skipped, events.skipped...)
		slices.SortStableFunc(page.writes, func(a, b *write) int { return strings.Compare(a.key, b.key) })
		c.packer.pack(page.writes)
		c.packer.pack(events.writes)

		var t coldTx
		err := m.r.write(ctx, set, func(w *writer) ([]*write, error) {
			t = coldTx{w: w, before: m.gone, gone: map[string]string{}}
			w.objects.FillPercent = coldFill
			if err := t.store(page.writes, events.writes); err != nil {
				return nil, err
			}
			if finish != nil {
				m.note(t.taken, page, events)
				if err := finish(w); err != nil {
					return nil, err
				}
			}
			return t.taken, nil
		})
		switch {
		case err == nil:
			m.note(t.taken, page, events)
			m.events = nil
			maps.Copy(m.gone, t.gone)
			c.reported.Store(true)
			return Result{Changes: t.changes, Skipped: skipped}, nil
		case !errors.Is(err, errIndexesChanged):
			return ofFailed(err, t.changes), err
		}
	}
}

func (m *coldReplace) note(taken []*write, parts ...encoded) {
	for _, x := range taken {
		m.r.note(x)
	}
	for _, part := range parts {
		for _, l := range part.leftOut {
			m.r.leaveOut(l)
		}
	}
}

// coldTx is one transaction of a cold start.
type coldTx struct {
	w            *writer
	before, gone map[string]string // deletes of earlier transactions and of this one
	taken        []*write
	changes      []Change
}

func (t *coldTx) store(listed, events []*write) error {
	for _, x := range listed {
		if err := t.listed(x); err != nil {
			return err
		}
	}
	for _, x := range events {
		if err := t.event(x); err != nil {
			return err
		}
	}
	return nil
}

// goneAt returns the resourceVersion at which key was seen to be deleted.
func (t *coldTx) goneAt(key string) (rv string, gone bool) {
	if rv, gone = t.gone[key]; !gone {
		rv, gone = t.before[key]
	}
	return rv, gone
}

// listed stores an item unless a watched event, or another item of the same
// key, is as new or newer.
func (t *coldTx) listed(x *write) error {
	old, err := t.w.get(x.key)
	if err != nil {
		return err
	}
	if old.found && notOlder(old.RV, x.rv) {
		return nil
	}
	if rv, gone := t.goneAt(x.key); gone && !entry.NewerRV(x.rv, rv) {
		return nil
	}
	return t.take(x, old)
}

// event stores an event unless what is stored is newer, or the same: a page
// that was read after the event.
func (t *coldTx) event(x *write) error {
	old, err := t.w.get(x.key)
	if err != nil {
		return err
	}
	if old.found && (entry.NewerRV(old.RV, x.rv) || !x.del && notOlder(old.RV, x.rv)) {
		return nil
	}
	if rv, gone := t.goneAt(x.key); gone && entry.NewerRV(rv, x.rv) {
		return nil
	}
	if x.del {
		t.gone[x.key] = x.rv
	}
	return t.take(x, old)
}

func (t *coldTx) take(x *write, old stored) error {
	t.taken = append(t.taken, x)
	before, err := t.w.c.before(x.key, old)
	if err != nil {
		return err
	}
	if x.del {
		if old.found {
			t.changes = append(t.changes, Change{Type: cache.Deleted, Key: x.key, Old: before, New: x.obj})
		}
		return t.w.remove(x.key, old, x)
	}
	t.changes = append(t.changes, changeOf(x.key, before, x.obj))
	return t.w.put(x, old)
}

// notOlder reports whether a is as new as b or newer; false if they can not be compared.
func notOlder(a, b string) bool {
	return entry.NewerRV(a, b) || a == b && entry.ComparableRV(a)
}
