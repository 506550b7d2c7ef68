package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

const (
	// interrupted is why a collection must be listed anew after a crash between
	// the transactions of one list's end.
	interrupted = "a relist was interrupted while its changes were being applied"
	// tailPage is how many missing keys are staged in one read transaction.
	tailPage = 10000
	// refillPage is how many staged objects get new index terms at a time.
	refillPage = 1000
)

// commit applies the next entries, all that are left if they fit in one transaction.
func (m *warmReplace) commit(ctx context.Context, b Batch) (Result, error) {
	if err := m.stageRest(ctx); err != nil {
		return Result{}, err
	}
	for {
		set := m.r.c.set.Load()
		if err := m.refill(ctx, set); err != nil {
			return Result{}, err
		}
		t, err := m.applySome(ctx, set, b)
		switch {
		case errors.Is(err, errIndexesChanged):
			continue
		case err != nil:
			return ofFailed(err, t.changes), err
		}
		m.at, m.after = t.at, t.after
		t.noteLeftOut()
		if !t.full {
			m.r.c.reported.Store(true)
		}
		return Result{Changes: t.changes, Skipped: t.skipped, More: t.full}, nil
	}
}

// stageRest stages deletes for the keys on disk that the list never reached.
func (m *warmReplace) stageRest(ctx context.Context) error {
	for {
		var gone []*staged
		var end string
		err := m.r.c.view(ctx, func(b *bolt.Bucket) error {
			objects, err := m.r.c.objects(b)
			if err != nil {
				return err
			}
			k, _ := objects.Cursor().Last()
			end = string(k)
			gone, err = m.missing(b, end, nil, tailPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range gone {
			m.staging.set(e)
		}
		if len(gone) == tailPage {
			end = gone[tailPage-1].key
		}
		m.last = max(m.last, end)
		if err := m.staging.spillIfLarge(ctx); err != nil {
			return err
		}
		if len(gone) < tailPage {
			break
		}
	}
	return m.staging.gather(ctx)
}

// warmTx is one transaction of a commit.
type warmTx struct {
	m *warmReplace
	w *writer
	// at and after are where it has come to.
	at    stagedKind
	after string
	size  int  // what it has applied, about, encoded: that of old and new objects
	full  bool // there is more than it may hold
	// taken is what those want to know who keep objects in memory.
	taken   []*write
	changes []Change
	skipped []Skipped
	leftOut []entry.LeftOut
}

// noteLeftOut notes what the transaction left out. It does no harm twice.
func (t *warmTx) noteLeftOut() {
	for _, l := range t.leftOut {
		t.m.r.leaveOut(l)
	}
}

// applySome applies entries until there are none left, or the transaction is full. After the last one it makes the
// state that of the list.
func (m *warmReplace) applySome(ctx context.Context, set *indexSet, b Batch) (t warmTx, err error) {
	err = m.r.write(ctx, set, func(w *writer) ([]*write, error) {
		t = warmTx{m: m, w: w, at: m.at, after: m.after}
		if err := t.apply(); err != nil {
			return nil, err
		}
		if t.full {
			if w.state.MustRelist == "" { // else there is a reason that says more
				w.state.MustRelist = interrupted
			}
			return t.taken, nil
		}
		t.noteLeftOut()
		if err := m.r.finish(&w.state, m.r.o, b, w.held); err != nil {
			return nil, err
		}
		if err := m.dropDictionaries(w); err != nil {
			return nil, err
		}
		return t.taken, dropStaging(w.bucket)
	})
	return t, err
}

// apply goes through the deletes, and then through the puts.
func (t *warmTx) apply() error {
	for {
		err := t.m.staging.each(t.w.bucket, t.at, t.after, func(e *staged) (bool, error) {
			if t.size > t.m.r.c.limits.commit {
				t.full = true
				return false, nil
			}
			t.after = e.key
			err := t.applyOne(e)
			if errors.Is(err, entry.ErrIncompatible) {
				t.skipped = append(t.skipped, Skipped{Key: e.key, Err: err})
				t.leftOut = append(t.leftOut, leftOutOf(&e.write, err))
				err = nil
			}
			return true, err
		})
		if err != nil || t.full || t.at == stagedPut {
			return err
		}
		t.at, t.after = stagedPut, ""
	}
}

// applyOne makes one key what is staged for it.
func (t *warmTx) applyOne(e *staged) error {
	c := t.m.r.c
	old, err := t.w.get(e.key)
	if err != nil {
		return err
	}
	t.size += e.size() + old.PlainSize(old.payload)
	before, err := c.before(e.key, old)
	if err != nil {
		return err
	}
	if e.kind == stagedDelete {
		if old.found && !t.m.unheard {
			t.changes = append(t.changes, changeOf(e.key, before, nil))
		}
		t.take(&write{key: e.key, del: true})
		return t.w.remove(e.key, old, nil)
	}
	if same, err := t.m.sameAsDisk(&e.write, old); same && !t.m.unheard || err != nil {
		return err // an event told what the disk has
	}
	now, err := t.m.staged(e)
	if err != nil {
		return err
	}
	sameVersion := old.found && old.UID == e.uid && old.RV == e.rv
	same := sameVersion && before != nil && semanticallyEqual(before, now)
	x := c.packer.packed(&e.write)
	x.sameObject = same
	if err := t.w.put(x, old); err != nil {
		return err
	}
	t.take(&write{key: e.key, obj: now, uid: e.uid, rv: e.rv, payloadSize: len(e.payload), terms: maps.Clone(e.terms)})
	switch {
	case t.m.unheard:
		t.changes = append(t.changes, changeOf(e.key, nil, now))
	case !same:
		t.changes = append(t.changes, changeOf(e.key, before, now))
	}
	return nil
}

// take notes what was written if anybody keeps objects in memory: else nobody would need it once its change has been reported.
func (t *warmTx) take(x *write) {
	if c := t.m.r.c; c.bounded != nil || c.resident.Load() != nil {
		t.taken = append(t.taken, x)
	}
}

// staged returns the object that is staged. That the codec can not read what it
// has written is no damage of the file, and must not hold up all other objects.
func (m *warmReplace) staged(e *staged) (runtime.Object, error) {
	obj, err := m.r.c.decodePlain(e.key, body{encoding: m.r.c.codec.Name(), payload: e.payload})
	if err != nil && !errors.Is(err, entry.ErrIncompatible) {
		err = fmt.Errorf("%w: %w", entry.ErrIncompatible, err)
	}
	return obj, err
}

// semanticallyEqual compares two objects; those that it can not compare differ.
func semanticallyEqual(a, b runtime.Object) bool {
	equal := false
	err := guard("the comparison", func() error {
		equal = equality.Semantic.DeepEqual(a, b)
		return nil
	})
	return err == nil && equal
}

// refill computes the terms of what is staged anew if index functions were
// added since. It calls code of the user, outside of any transaction.
func (m *warmReplace) refill(ctx context.Context, set *indexSet) error {
	if set.generation == m.set.generation {
		return nil
	}
	if err := m.staging.gather(ctx); err != nil {
		return err
	}
	for after, more := "", true; more; {
		page, err := m.refillRead(ctx, after)
		if err != nil {
			return err
		}
		more = len(page) == refillPage
		for _, e := range page {
			after = e.key
			obj, err := m.staged(e)
			if err != nil {
				continue // the commit leaves it out
			}
			m.staging.set(m.reindexed(set, e, obj))
		}
		if err := m.staging.gather(ctx); err != nil {
			return err
		}
	}
	m.set = set
	return nil
}

// reindexed returns e with the terms of set. An object that a new function
// fails on is in none of the new indexes, as after a build.
func (m *warmReplace) reindexed(set *indexSet, e *staged, obj runtime.Object) *staged {
	next := *e
	next.terms = maps.Clone(e.terms)
	if next.terms == nil {
		next.terms = map[string][]string{}
	}
	for name, fn := range set.funcs {
		if m.set.funcs[name] != nil {
			continue
		}
		values, err := indexValues(name, fn, obj)
		if err != nil {
			m.r.c.store.logger().Error(err, "An object is not in the index: the index function failed",
				"collection", m.r.c.id.String(), "key", e.key)
			values = nil
		}
		delete(next.terms, name)
		if len(values) > 0 {
			next.terms[name] = values
		}
	}
	return &next
}

// refillRead returns the next page of the objects that are staged, in memory of its own.
func (m *warmReplace) refillRead(ctx context.Context, after string) (page []*staged, err error) {
	err = m.r.c.view(ctx, func(b *bolt.Bucket) error {
		return m.staging.each(b, stagedPut, after, func(e *staged) (bool, error) {
			own := *e
			own.payload = slices.Clone(e.payload)
			page = append(page, &own)
			return len(page) < refillPage, nil
		})
	})
	return page, err
}
