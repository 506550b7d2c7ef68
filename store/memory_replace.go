package store

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// memoryReplacement takes a list into a Memory. It holds the whole list, which
// the Memory will share.
type memoryReplacement struct {
	m    *Memory
	o    ReplaceOptions
	cold bool // changes are made at once
	done bool
	set  *indexSet // the terms were computed with it
	gathered

	listed map[string]*memoryEntry
	events map[string]*memoryEntry
}

// memoryEntry is what the list or an event says about a key.
type memoryEntry struct {
	*memtable.Write
	same bool // as it was stored; it has no terms
	bad  bool // it is skipped, and what is stored stays
}

// BeginReplace starts to take in a list; see Interface and Collection.BeginReplace.
func (m *Memory) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replacing != nil {
		return nil, ErrReplacing
	}
	m.replacing = &memoryReplacement{
		m: m, o: o, set: m.set,
		cold:   !m.info.Complete && !m.reported,
		listed: map[string]*memoryEntry{}, events: map[string]*memoryEntry{},
	}
	return m.replacing, ctx.Err()
}

// Page takes the next items of the list; see Replacement.
func (r *memoryReplacement) Page(
	ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut,
) (res Result, err error) {
	if err := r.begin(ctx); err != nil {
		return res, err
	}
	var entries []*memoryEntry
	for _, op := range opsOf(items, leftOut) {
		e, skipped := r.prepare(op)
		res.Skipped = append(res.Skipped, skipped...)
		if e != nil {
			entries = append(entries, e)
		}
	}
	keys := make([]string, 0, len(entries))
	for _, e := range entries {
		other := r.listed[e.Key]
		if other == nil || !entry.NewerRV(other.RV, e.RV) && (!e.bad || other.bad) {
			r.listed[e.Key] = e
			keys = append(keys, e.Key)
		}
	}
	if r.cold {
		slices.Sort(keys)
		res.Changes = r.settle(slices.Compact(keys))
	}
	res.Staged = !r.cold
	return res, nil
}

// Event folds in a watched event; see Replacement.
func (r *memoryReplacement) Event(ctx context.Context, op Op) (res Result, err error) {
	if err := r.begin(ctx); err != nil {
		return res, err
	}
	e, skipped := r.prepare(op)
	res.Skipped, res.Staged = skipped, true
	if e == nil || e.bad {
		return res, nil
	}
	r.events[e.Key] = e
	if r.cold {
		res.Changes, res.Staged = r.settle([]string{e.Key}), false
	}
	return res, nil
}

// Commit applies what was taken in; see Replacement.
func (r *memoryReplacement) Commit(ctx context.Context, b Batch) (res Result, err error) {
	if err := r.begin(ctx); err != nil {
		return res, err
	}
	if len(b.Ops) > 0 {
		return res, errBatchOps
	}
	for {
		r.refill(r.m.indexSet())
		r.m.mu.Lock()
		if r.m.set == r.set {
			break
		}
		r.m.mu.Unlock()
	}
	defer r.m.mu.Unlock()
	if !r.cold {
		keys := maps.Clone(r.listed)
		maps.Copy(keys, r.events)
		r.m.table.Each("", func(e *resident.Row) bool {
			keys[e.Key] = nil
			return true
		})
		res.Changes = r.settleLocked(slices.Sorted(maps.Keys(keys)))
	}
	r.m.table.Each("", func(stored *resident.Row) bool {
		if e := r.target(stored.Key); e != nil && !e.bad {
			r.note(e.Write)
		}
		return true
	})
	info := r.m.info
	if err := r.finish(&info, r.o, b, r.m.heldLocked); err != nil {
		return res, err
	}
	r.m.info = info
	r.m.replacing, r.done = nil, true
	return res, nil
}

// Abort forgets what was taken in; see Replacement.
func (r *memoryReplacement) Abort() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if !r.done {
		r.m.replacing, r.done = nil, true
	}
}

func (r *memoryReplacement) begin(ctx context.Context) error {
	if r.done {
		return errReplaceDone
	}
	if err := r.m.pause.wait(ctx); err != nil {
		return err
	}
	r.refill(r.m.indexSet())
	return ctx.Err()
}

// prepare keys and indexes an op, and notes what it cannot. An op without a usable key yields no entry.
func (r *memoryReplacement) prepare(op Op) (*memoryEntry, []Skipped) {
	enc := r.m.encoder(r.set)
	x, err := enc.identify(op)
	e := &memoryEntry{Write: x}
	if err != nil {
		return r.leave(e, err)
	}
	if x.Del {
		r.noteGone(x)
		return e, nil
	}
	if e.same = r.unchanged(r.m.table.State(x.Key), x); e.same {
		return e, nil
	}
	if err := enc.fill(x); err != nil {
		return r.leave(e, err)
	}
	return e, nil
}

// leave notes that e is left out. Without a key it is no entry.
func (r *memoryReplacement) leave(e *memoryEntry, err error) (entry *memoryEntry, skipped []Skipped) {
	l := leftOutOf(e.Write, err)
	r.leaveOut(l)
	if reportable(err) {
		skipped = []Skipped{{Key: e.Key, Err: err}}
	}
	if e.bad = true; l.Key == "" {
		return nil, skipped
	}
	return e, skipped
}

// heldLocked returns the state of an object.
func (m *Memory) heldLocked(key string) (ref entry.ObjectRef, found bool, err error) {
	s := m.table.State(key)
	if s == nil {
		return entry.ObjectRef{}, false, nil
	}
	return entry.ObjectRef{Key: key, UID: s.UID, ResourceVersion: s.RV}, true, nil
}

func (r *memoryReplacement) unchanged(old *resident.State, x *memtable.Write) bool {
	return !r.o.Rewrite && x.RV != "" && old != nil && old.UID == x.UID && old.RV == x.RV
}

// target returns what becomes of key: the event, unless the list has it newer; nil is nothing.
func (r *memoryReplacement) target(key string) *memoryEntry {
	l, e := r.listed[key], r.events[key]
	if e == nil || l != nil && !l.bad && entry.NewerRV(l.RV, e.RV) {
		return l
	}
	return e
}

func (r *memoryReplacement) settle(keys []string) []Change {
	for {
		r.refill(r.m.indexSet())
		r.m.mu.Lock()
		if r.m.set == r.set {
			defer r.m.mu.Unlock()
			return r.settleLocked(keys)
		}
		r.m.mu.Unlock()
	}
}

// settleLocked makes the keys what they are to become. In a cold start the changes are in the order of keys, and else
// deletes come first.
func (r *memoryReplacement) settleLocked(keys []string) (changes []Change) {
	r.m.reported = true
	defer r.m.changingLocked(len(keys))()
	for _, key := range keys {
		old, e := r.m.table.State(key), r.target(key)
		switch {
		case e == nil || e.Del:
			if old == nil {
				continue
			}
			ch := changeOf(key, old.Obj, nil)
			if e != nil && r.cold {
				ch.New = e.Obj
			}
			changes = append(changes, ch)
			r.m.removeLocked(key)
		case e.bad || e.same || r.unchanged(old, e.Write):
		default:
			r.m.putLocked(e.Write)
			sameVersion := old != nil && old.UID == e.UID && old.RV == e.RV
			if !sameVersion || !semanticallyEqual(old.Obj, e.Obj) {
				changes = append(changes, changeOf(key, old.Object(), e.Obj))
			}
		}
	}
	if !r.cold {
		slices.SortStableFunc(changes, deletesFirst)
	}
	return changes
}

func deletesFirst(a, b Change) int {
	switch {
	case a.Type == b.Type:
	case a.Type == cache.Deleted:
		return -1
	case b.Type == cache.Deleted:
		return 1
	}
	return 0
}

// refill computes the terms anew if index functions were added since.
func (r *memoryReplacement) refill(set *indexSet) {
	if r.set == set {
		return
	}
	for _, entries := range []map[string]*memoryEntry{r.listed, r.events} {
		for _, e := range entries {
			if !e.same && !e.bad && !e.Del {
				e.Terms = set.workingTerms(e.Obj)
			}
		}
	}
	r.set = set
}
