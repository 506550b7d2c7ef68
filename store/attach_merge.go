package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// mergePage is how many keys are compared before what differs is written.
const mergePage = 1000

// merging makes a collection of the file what it is in memory. Both are in the order of keys, so that one pass finds what differs; what does not is not written. Records come as
// they are, with their index terms: no code of the user is called. They get new numbers where they differ, and objects that the file has and memory has not
// get tombstones: durable handlers are told of all that has happened since they were last fed.
//
// It is one transaction, unless the file's collection is incomplete, or more than limits.attach changes: then a crash in between leaves one that must be listed.
type merging struct {
	from, into *Collection
	tx         *bolt.Tx     // of from
	objects    *bolt.Bucket // of from
	st         state        // of from
	refile     []string     // the indexes whose entries are all to be written
	older      bool         // the file's durable handlers know something newer
	begun      bool
	staged     bool // a list was being taken in, in part in a bucket that is not brought
	after      string
}

// merge brings what c has in memory into the file.
func (a *attachment) merge(ctx context.Context, c *Collection) error {
	f, err := a.inFile(ctx, c)
	if err != nil {
		return err
	}
	m := &merging{from: c, into: f, older: slices.Contains(a.older, c)}
	var failed error // says nothing of what is in memory, which a view would take it for
	err = a.s.view(ctx, func(tx *bolt.Tx) error {
		failed = m.run(ctx, tx)
		return nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if m.staged {
		a.lost = append(a.lost, c.name)
	}
	a.merged = append(a.merged, taken{c: c, file: f})
	return nil
}

// run makes as many transactions as it takes.
func (m *merging) run(ctx context.Context, tx *bolt.Tx) error {
	b, err := collectionBucket(tx, m.from.name)
	if err != nil {
		return err
	}
	m.tx, m.staged = tx, b.Bucket(bucketStaging) != nil
	if m.st, err = getState(b, m.from.name); err != nil {
		return err
	}
	if m.objects, err = m.from.objects(b); err != nil {
		return err
	}
	for done := false; !done; {
		err := m.into.writeLocked(ctx, nil, func(w *writer) (err error) {
			if done, err = m.step(ctx, w); err == nil && m.older {
				err = m.setBack(w)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// step is one transaction.
func (m *merging) step(ctx context.Context, w *writer) (done bool, err error) {
	if !m.begun {
		if err := m.begin(w); err != nil {
			return false, err
		}
		m.begun = true
	}
	limit := m.into.limits.attach
	if !w.state.Complete { // nobody would miss it
		limit = min(limit, commitLimit)
	}
	for size := 0; size <= limit; {
		pairs, more, err := m.page(w)
		if err != nil {
			return false, err
		}
		for _, p := range pairs {
			if err := m.apply(w, p); err != nil {
				return false, fmt.Errorf("object %s: %w", legible(p.key), err)
			}
			size += p.size()
		}
		if !more {
			return true, m.finish(w)
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	if w.state.Complete {
		w.state.MustRelist = interrupted
	}
	return false, nil
}

// setBack has the durable handlers begin anew, and readers of changes: of what is missing now nobody knows that it is gone.
func (m *merging) setBack(w *writer) error {
	if w.places == nil {
		return nil
	}
	for name, place := range w.places.places {
		place = place.again(w.state.NextSeq, ResetBehind)
		w.places.places[name], w.places.reset[name] = place, place
		if err := putPlace(w.bucket.Bucket(bucketHandlers), w.c.name, name, place); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the indexes of the file fit to be written. Those that it has whole, by the terms of its own records, are moved to the
// terms of ours record by record; the others are made anew.
func (m *merging) begin(w *writer) error {
	if err := w.idleIndexes(); err != nil {
		return err
	}
	root := w.bucket.Bucket(bucketIndex)
	for name := range m.from.set.Load().funcs {
		want := m.st.indexes[name]
		have, known := w.state.indexes[name]
		if known && have.Ready && have.Version == want.Version {
			continue
		}
		if root.Bucket([]byte(name)) != nil {
			if err := root.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		b, err := root.CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		w.indexes[name], w.state.indexes[name] = b, indexState{Version: want.Version}
		m.refile = append(m.refile, name)
	}
	return nil
}

// pair is what is under one key in memory and in the file.
type pair struct {
	key      string
	now, old stored
	same     bool // object, body and terms
	sameBody bool
}

func (p pair) size() int { return 128 + len(p.now.payload) + len(p.old.payload) }

// page compares the next keys, and returns those that something is to be done about. What it returns is part of the transactions.
func (m *merging) page(w *writer) (pairs []pair, more bool, err error) {
	ours, theirs := scanAfter(m.objects, m.after), scanAfter(w.objects, m.after)
	k, data := ours.next()
	fk, fdata := theirs.next()
	for n := 0; k != nil || fk != nil; n++ {
		if n == mergePage {
			more = true
			break
		}
		p := pair{key: string(k)}
		if k == nil || fk != nil && bytes.Compare(fk, k) < 0 {
			p.key = string(fk)
		}
		if k != nil && p.key == string(k) {
			if p.now, err = m.from.parse(m.objects, p.key, data); err != nil {
				return nil, false, ofMemory(err)
			}
			k, data = ours.next()
		}
		if fk != nil && p.key == string(fk) {
			if p.old, err = m.into.parse(w.objects, p.key, fdata); err != nil {
				return nil, false, err
			}
			fk, fdata = theirs.next()
		}
		if err := m.compare(&p); err != nil {
			return nil, false, err
		}
		if !p.same || len(m.refile) > 0 {
			pairs = append(pairs, p)
		}
		m.after = p.key
	}
	return pairs, more, errors.Join(ofMemory(ours.err), theirs.err)
}

// ofMemory makes an error of reading what is in memory one that is not held against the file, in whose transaction it is read.
func ofMemory(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("what is in memory can not be read, start the process again: %v", err) //nolint:errorlint // see above
}

// parse is stored for who has the record.
func (r *reader) parse(objects *bolt.Bucket, key string, data []byte) (stored, error) {
	h, payload, err := parseRecord(r.name, key, data)
	return stored{header: h, found: true, payload: payload, objects: objects}, err
}

// compare finds out what of the two is the same.
func (m *merging) compare(p *pair) error {
	if !p.now.found || !p.old.found || p.now.UID != p.old.UID || p.now.RV != p.old.RV || p.now.Encoding != p.old.Encoding {
		return nil
	}
	var err error
	if p.sameBody, err = m.sameBodies(p); err != nil {
		return err
	}
	now, err := m.from.plainTerms(p.key, p.now.header)
	if err != nil {
		return err
	}
	old, err := m.into.plainTerms(p.key, p.old.header)
	if err != nil {
		return err
	}
	p.same = p.sameBody
	for name := range m.from.set.Load().funcs {
		p.same = p.same && slices.Equal(now[name], old[name])
	}
	return nil
}

// sameBodies compares the payloads, without their compression.
func (m *merging) sameBodies(p *pair) (bool, error) {
	sealed := p.now.SealedBy != 0 || p.old.SealedBy != 0
	if !sealed && p.now.Dictionary == p.old.Dictionary && p.now.unknown == p.old.unknown {
		return bytes.Equal(p.now.payload, p.old.payload), nil
	}
	now, err := m.from.plainOf(p.key, p.now)
	if err != nil {
		return false, ofMemory(err)
	}
	old, err := m.into.plainOf(p.key, p.old)
	switch {
	case isDamaged(err):
		return false, err
	case err != nil: // what can not be read is written anew
		return false, nil //nolint:nilerr // see above
	}
	return bytes.Equal(now.payload, old.payload), nil
}

func (r *reader) plainOf(key string, s stored) (body, error) {
	b, err := r.body(s.objects, key, s.header, s.payload)
	if err != nil {
		return b, err
	}
	return r.plain(key, b, nil)
}

// apply makes the file's record what ours is.
func (m *merging) apply(w *writer, p pair) error {
	switch {
	case !p.now.found:
		return w.remove(p.key, p.old, nil)
	case !p.same:
		return m.put(w, p)
	}
	for _, name := range m.refile {
		if err := moveEntries(w.indexes[name], p.key, nil, p.old.Terms[name], false); err != nil { // those of the record that stays
			return err
		}
	}
	return nil
}

func (m *merging) put(w *writer, p pair) (err error) {
	b, err := m.from.body(p.now.objects, p.key, p.now.header, p.now.payload)
	if err != nil {
		return ofMemory(err)
	}
	x := &write{key: p.key, uid: p.now.UID, rv: p.now.RV, payload: b.payload, dict: b.dict, plainSize: b.size, sameObject: p.sameBody}
	if x.terms, err = m.from.plainTerms(p.key, p.now.header); err != nil {
		return ofMemory(err)
	}
	return w.putEncoded(x, p.now.Encoding, p.old)
}

// finish makes the state of the collection that of ours.
func (m *merging) finish(w *writer) error {
	st := &w.state
	if st.Objects != m.st.Objects {
		return fmt.Errorf("the file counts %d objects of it now, and memory has %d: %w", st.Objects, m.st.Objects, ErrDamaged)
	}
	was := st.Info
	st.Info = m.st.Info
	st.Sealed, st.PlainText = was.Sealed, was.PlainText
	m.into.markSealed(st)
	st.Resource, st.NextSeq = was.Resource.with(m.st.Info.Resource), was.NextSeq
	now := m.into.store.clocks()
	st.LastUsed, st.usedAt = now.wall, now.steady
	for name := range m.from.set.Load().funcs {
		st.indexes[name] = m.st.indexes[name]
	}
	return nil
}
