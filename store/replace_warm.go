package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// warmReplace finds out what a list changes, by a merge-join of the list and
// the store, which a server sends and bbolt keeps in the same order.
//
// Of the keys up to last it is known what becomes of them: they are staged, or
// stay as they are on disk. Of the keys beyond only events are staged. A list
// that is not in order costs staged deletes that are taken back, and nothing else:
// every item is held against the disk and against what is staged for its key.
type warmReplace struct {
	r       *replacement
	set     *indexSet // the staged terms were computed with it
	staging staging
	last    string
	revised bool   // whether there is to be another dictionary has been decided
	unheard bool   // what is on disk has been told to nobody but durable handlers, so the changes are all that the list has
	buf     []byte // for a payload of the file

	// Where a commit in several transactions has come to: all deletes come before the first put, and
	// the entries of the kind that it is at have been applied up to a key.
	at    stagedKind
	after string
}

// item is an object of a page on its way into the diff.
type item struct {
	*write
	prior  *staged // what is staged for the key
	needed bool    // the disk has another state
	err    error   // why it is skipped
}

// page compares, encodes what differs, and stages it.
func (m *warmReplace) page(ctx context.Context, ops []Op) (Result, error) {
	if err := m.refill(ctx, m.r.c.set.Load()); err != nil {
		return Result{}, err
	}
	items, skipped := m.identify(ops)
	keys := slices.Sorted(maps.Keys(items))
	end := m.last
	if len(keys) > 0 {
		end = max(end, keys[len(keys)-1])
	}
	if m.r.o.Rewrite { // bodies are compared, so they are all needed
		for _, key := range keys {
			m.fill(items[key])
		}
		m.reviseDictionary(items, keys)
	}
	var gone []*staged
	err := m.r.c.view(ctx, func(b *bolt.Bucket) (err error) {
		if gone, err = m.missing(b, end, items, -1); err != nil {
			return err
		}
		objects, err := m.r.c.objects(b)
		for i := 0; err == nil && i < len(keys); i++ {
			err = m.compare(b, objects, items[keys[i]])
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	for _, e := range gone {
		m.staging.set(e)
	}
	for _, key := range keys {
		it := items[key]
		m.stage(it)
		if it.err == nil {
			continue
		}
		m.r.leaveOut(leftOutOf(it.write, it.err))
		if reportable(it.err) {
			skipped = append(skipped, Skipped{Key: key, Err: it.err})
		}
	}
	m.last = end
	return Result{Skipped: skipped, Staged: true}, m.staging.spillIfLarge(ctx)
}

// identify keys the objects. Of several with one key it takes the newest.
func (m *warmReplace) identify(ops []Op) (map[string]*item, []Skipped) {
	items := make(map[string]*item, len(ops))
	var skipped []Skipped
	for _, op := range ops {
		x, err := m.encoder().identify(op)
		if l := leftOutOf(x, err); err != nil && l.Key == "" {
			m.r.leaveOut(l)
			skipped = append(skipped, Skipped{Key: x.key, Err: err})
			continue
		}
		if other := items[x.key]; other != nil && entry.NewerRV(other.rv, x.rv) {
			continue
		}
		items[x.key] = &item{write: x, err: err}
	}
	return items, skipped
}

func (m *warmReplace) encoder() encoder { return m.r.c.encoder(m.set) }

func (m *warmReplace) fill(it *item) {
	if it.err == nil && it.payload == nil {
		it.err = m.encoder().fill(it.write)
	}
}

// missing returns deletes for the keys on disk beyond last and up to end that
// are neither in the page nor told of by an event, limit of them at most.
func (m *warmReplace) missing(b *bolt.Bucket, end string, items map[string]*item, limit int) (gone []*staged, err error) {
	objects, err := m.r.c.objects(b)
	if err != nil {
		return nil, err
	}
	s := scanAfter(objects, m.last)
	for k, _ := s.next(); k != nil && string(k) <= end && len(gone) != limit; k, _ = s.next() {
		key := string(k)
		if items[key] != nil {
			continue
		}
		e, err := m.staging.get(b, key)
		if err != nil {
			return nil, err
		}
		if e == nil || !e.event {
			gone = append(gone, &staged{kind: stagedDelete, write: write{key: key}})
		}
	}
	return gone, s.err
}

// compare finds out whether the item differs from what is known of its key.
func (m *warmReplace) compare(b, objects *bolt.Bucket, it *item) error {
	prior, err := m.staging.get(b, it.key)
	if err != nil {
		return err
	}
	disk, err := m.r.c.stored(objects, it.key)
	if err != nil {
		return err
	}
	if prior != nil {
		// The entry may share memory with the transaction; only this much is used later.
		it.prior = &staged{kind: prior.kind, event: prior.event, write: write{key: it.key, rv: prior.rv}}
	}
	same, err := m.sameAsDisk(it.write, disk)
	if err != nil {
		return err
	}
	it.needed = !same || m.unheard
	if it.prior == nil && it.key <= m.last && disk.found {
		it.prior = &staged{kind: stagedSame, write: write{key: it.key, rv: disk.RV}}
	}
	return nil
}

// sameAsDisk reports whether x need not be written. Bodies are compared without their compression.
func (m *warmReplace) sameAsDisk(x *write, disk stored) (bool, error) {
	if !disk.found || disk.UID != x.uid || disk.RV != x.rv {
		return false, nil
	}
	if !m.r.o.Rewrite {
		return x.rv != "", nil
	}
	if disk.Encoding != m.r.c.codec.Name() {
		return false, nil
	}
	b, err := m.r.c.body(disk.objects, x.key, disk.Header, disk.payload)
	if err == nil {
		b, err = m.r.c.plain(x.key, b, m.buf)
	}
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // what can not be read is written anew
		return false, nil //nolint:nilerr // see above
	case disk.Dictionary != 0:
		m.buf = b.payload
	}
	return bytes.Equal(b.payload, x.payload) && m.r.c.packer.keeps(disk.Header, x.payload) && m.r.c.sealsAs(disk.Header), nil
}

// stage stages the item, or takes back what was staged if the disk has its state.
func (m *warmReplace) stage(it *item) {
	if p := it.prior; p != nil {
		if p.event && !entry.NewerRV(it.rv, p.rv) {
			return // the event happened after the page was read
		}
		if !p.event && p.kind != stagedDelete && entry.NewerRV(p.rv, it.rv) {
			return // the list has it twice
		}
	}
	if it.needed {
		m.fill(it)
	}
	if it.err == nil {
		m.r.note(it.write)
	}
	switch {
	case it.err != nil:
		// It is in the list, so it must not be deleted. What is staged otherwise
		// is older, but better than what is on disk.
		if p := it.prior; p != nil && p.kind == stagedDelete && !p.event {
			m.staging.set(&staged{kind: stagedSame, write: write{key: it.key, rv: it.rv}})
		}
	case it.needed:
		it.obj = nil // the commit decodes it; until then the payload is smaller
		m.staging.set(&staged{kind: stagedPut, write: *it.write})
	case it.prior != nil:
		m.staging.set(&staged{kind: stagedSame, write: write{key: it.key, rv: it.rv}})
	}
}

// event stages an event over what is staged, unless that is a newer listed state.
func (m *warmReplace) event(ctx context.Context, op Op) (Result, error) {
	if err := m.refill(ctx, m.r.c.set.Load()); err != nil {
		return Result{}, err
	}
	x, unfit := m.encoder().identify(op)
	if unfit == nil && !x.del {
		unfit = m.encoder().fill(x)
	}
	if unfit != nil {
		m.r.leaveOut(leftOutOf(x, unfit))
		res := Result{Staged: true}
		if reportable(unfit) {
			res.Skipped = []Skipped{{Key: x.key, Err: unfit}}
		}
		return res, nil //nolint:nilerr // it is in the result
	}
	listed, err := m.listedRV(ctx, x.key)
	if err != nil {
		return Result{}, err
	}
	if entry.NewerRV(listed, x.rv) {
		return Result{Staged: true}, nil
	}
	m.r.note(x)
	e := &staged{kind: stagedPut, event: true, write: *x}
	if x.del {
		e.kind = stagedDelete
	}
	e.obj = nil
	m.staging.set(e)
	return Result{Staged: true}, m.staging.spillIfLarge(ctx)
}

// listedRV returns the resourceVersion at which the list has key, or "" if
// the list has not reached it, or does not have it, or an event has overridden it.
func (m *warmReplace) listedRV(ctx context.Context, key string) (rv string, err error) {
	err = m.r.c.view(ctx, func(b *bolt.Bucket) error {
		e, err := m.staging.get(b, key)
		if err != nil {
			return err
		}
		switch {
		case e != nil && e.kind == stagedPut && !e.event:
			rv = e.rv
			return nil
		case e != nil && e.kind != stagedSame, key > m.last:
			return nil
		}
		objects, err := m.r.c.objects(b)
		if err != nil {
			return err
		}
		disk, err := m.r.c.stored(objects, key)
		rv = disk.RV
		return err
	})
	return rv, err
}

func (m *warmReplace) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := m.staging.discard(ctx); err != nil {
		m.r.c.store.logger().Info("A relist that was given up is still staged in the file; the next one drops it",
			"collection", m.r.c.id.String(), "err", err)
	}
}
