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
)

const (
	// interrupted is why a collection must be listed anew after a crash between
	// the transactions of one commit.
	interrupted = "a relist was interrupted while its changes were being applied"
	// tailPage is how many missing keys are staged in one read transaction.
	tailPage = 10000
	// refillPage is how many staged objects get new index terms at a time.
	refillPage = 1000
)

// commit applies what is staged, in key order: in one transaction, or in
// several if it is too much for one. On an error the result holds the changes
// that earlier transactions of this call have committed.
func (m *warmReplace) commit(ctx context.Context, b Batch) (res Result, err error) {
	if err := m.stageRest(ctx); err != nil {
		return res, err
	}
	for {
		set := m.r.c.set.Load()
		if err := m.refill(ctx, set); err != nil {
			return res, err
		}
		some, finished, err := m.applySome(ctx, set, b)
		switch {
		case errors.Is(err, errIndexesChanged):
			continue
		case err != nil:
			return res, err
		}
		res.Changes = append(res.Changes, some.Changes...)
		res.Skipped = append(res.Skipped, some.Skipped...)
		if finished {
			m.r.c.reported.Store(true)
			return res, nil
		}
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

// applySome applies the next entries, all of them if they fit in one
// transaction, and after the last one makes the state that of the list.
func (m *warmReplace) applySome(ctx context.Context, set *indexSet, b Batch) (res Result, finished bool, err error) {
	limit := m.r.c.limits.commit
	applied := m.applied
	err = m.r.write(ctx, set, func(w *writer) (last []*write, err error) {
		size := 0
		finished = true
		err = m.staging.each(w.bucket, m.applied, func(e *staged) (bool, error) {
			if size > limit {
				finished = false
				return false, nil
			}
			size += e.size()
			applied = e.key
			ch, changed, x, err := m.apply(w, e)
			if x != nil {
				last = append(last, x)
			}
			switch {
			case errors.Is(err, ErrIncompatible):
				res.Skipped = append(res.Skipped, Skipped{Key: e.key, Err: err})
				return true, nil
			case changed:
				res.Changes = append(res.Changes, ch)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
		if !finished {
			w.state.MustRelist = interrupted
			return last, nil
		}
		m.r.noteSkipped(res.Skipped)
		m.r.finish(&w.state, m.r.o, b)
		if err := m.dropDictionaries(w); err != nil {
			return nil, err
		}
		return last, dropStaging(w.bucket)
	})
	if err != nil {
		return Result{}, false, err
	}
	m.applied = applied
	m.r.noteSkipped(res.Skipped)
	return res, finished, nil
}

// apply makes one key what is staged for it. It returns what it has written too, if anything.
func (m *warmReplace) apply(w *writer, e *staged) (ch Change, changed bool, x *write, err error) {
	old, err := w.get(e.key)
	if err != nil {
		return ch, false, nil, err
	}
	before, err := w.c.before(e.key, old)
	if err != nil {
		return ch, false, nil, err
	}
	if e.kind == stagedDelete {
		return changeOf(e.key, before, nil), old.found, &write{key: e.key, del: true}, w.remove(e.key, old)
	}
	if same, err := m.sameAsDisk(&e.write, old); same || err != nil {
		return ch, false, nil, err // an event told what the disk has
	}
	now, err := m.staged(e)
	if err != nil {
		return ch, false, nil, err
	}
	sameVersion := old.found && old.UID == e.uid && old.RV == e.rv
	if err := w.put(m.r.c.packer.packed(&e.write), old); err != nil {
		return ch, false, nil, err
	}
	x = &write{key: e.key, obj: now, uid: e.uid, rv: e.rv, payloadSize: len(e.payload), terms: maps.Clone(e.terms)}
	if sameVersion && before != nil && semanticallyEqual(before, now) {
		return ch, false, x, nil
	}
	return changeOf(e.key, before, now), true, x, nil
}

// staged returns the object that is staged. That the codec can not read what it
// has written is no damage of the file, and must not hold up all other objects.
func (m *warmReplace) staged(e *staged) (runtime.Object, error) {
	obj, err := m.r.c.decodePlain(e.key, body{encoding: m.r.c.codec.Name(), payload: e.payload})
	if err != nil && !errors.Is(err, ErrIncompatible) {
		err = fmt.Errorf("%w: %w", ErrIncompatible, err)
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
			if e.kind != stagedPut {
				continue
			}
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

// refillRead returns the next page of what is staged, in memory of its own.
func (m *warmReplace) refillRead(ctx context.Context, after string) (page []*staged, err error) {
	err = m.r.c.view(ctx, func(b *bolt.Bucket) error {
		return m.staging.each(b, after, func(e *staged) (bool, error) {
			own := *e
			own.payload = slices.Clone(e.payload)
			page = append(page, &own)
			return len(page) < refillPage, nil
		})
	})
	return page, err
}
