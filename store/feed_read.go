package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// FeedChange is one change of the changelog.
type FeedChange struct {
	// Type is Upsert, or Delete of the object with that UID.
	Type OpType
	Key  string
	// Object is the stored object, or for Delete its last known state, which is nil if it cannot be decoded.
	Object          runtime.Object
	UID             string
	ResourceVersion string
	// Seq is the number of the change in the order of all changes of the collection.
	Seq uint64
	// Created is the number of the change that first stored the object; 0 for Delete. An object that a damaged file had
	// lost counts as created when it is stored again.
	Created uint64
}

// FeedPage is a run of changes in order.
type FeedPage struct {
	Changes []FeedChange
	// End is the offset to read after next.
	End uint64
	// More says that further changes are in the file.
	More bool
	// Unreadable holds the keys of stored objects that this program cannot decode. They have no Change until they change.
	Unreadable []string
}

// Feed reads the committed changes of a collection for a durable handler, and stores its cursor. Its methods may be
// called concurrently.
type Feed struct {
	c        *Collection
	name     string
	keysOnly bool
}

// KeysOnly returns a Feed of the same handler whose changes have no Object: objects are neither copied nor decoded.
func (f *Feed) KeysOnly() *Feed { return &Feed{c: f.c, name: f.name, keysOnly: true} }

// Place returns the cursor of the handler, and how often the handler was made to begin anew in this process.
func (f *Feed) Place() (place Place, resets int, err error) { return f.c.places.get(f.name) }

// Acknowledge sets the cursor. The next commit writes it, at the latest Close. resets is the value that Place returned:
// if the handler was made to begin anew since, Acknowledge fails with ErrReset. It fails with ErrClosed once the
// collection or the store is being closed.
func (f *Feed) Acknowledge(place Place, resets int) error {
	if err := f.c.places.acknowledge(f.name, resets, place); err != nil {
		return fmt.Errorf("durable handler %q of %s: %w", f.name, f.c.id, err)
	}
	f.c.store.commits.add(f.c, 0)
	return nil
}

// Changed returns a channel that is closed after the next commit of the collection, when handlers begin anew, and when
// the collection or the store is closed.
func (f *Feed) Changed() <-chan struct{} { return f.c.places.nextChange() }

func (p *places) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		closed := make(chan struct{})
		close(closed)
		return closed
	case p.changed == nil:
		p.changed = make(chan struct{})
	}
	return p.changed
}

// Close lets the handler be registered again. Its cursor stays in the file.
func (f *Feed) Close() {
	p := &f.c.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.all[f.name]; h != nil {
		h.open = false
	}
}

// Read returns a page of the changes after an offset, in order: for a live object only the last one. Dropped tombstones
// are missing; a handler that had not acknowledged them has been made to begin anew.
func (f *Feed) Read(ctx context.Context, after uint64) (p FeedPage, err error) {
	var found []feedEntry
	err = f.c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, f.c.name)
		if err != nil {
			return err
		}
		p = FeedPage{End: st.NextSeq - 1}
		found, p.More, err = f.c.readFeed(b, st, after, !f.keysOnly)
		return err
	})
	if err != nil {
		return FeedPage{}, err
	}
	if p.More {
		p.End = found[len(found)-1].Seq
	}
	err = f.c.decodeFeed(&p, found) // before p is read for the result
	return p, err
}

// Objects returns a page of the objects whose keys follow the given one and that have not changed after upTo: for a
// handler that begins anew. end is the key to pass to the next call.
func (f *Feed) Objects(ctx context.Context, after string, upTo uint64) (p FeedPage, end string, err error) {
	var found []feedEntry
	err = f.c.view(ctx, func(b *bolt.Bucket) error {
		objects, err := f.c.objects(b)
		if err != nil {
			return err
		}
		size, seen := 0, 0
		keys := boltfile.ScanAfter(objects, after)
		for k, data := keys.Next(); k != nil; k, data = keys.Next() {
			if seen++; seen > iterateObjects || size > iterateBytes {
				p.More = true
				return nil
			}
			end = string(k)
			e, err := f.c.liveEntry(objects, end, data, !f.keysOnly)
			if err != nil {
				return err
			}
			if e.Seq <= upTo {
				found, size = append(found, e), size+e.body.size
			}
		}
		return keys.Err
	})
	if err != nil {
		return FeedPage{}, "", err
	}
	err = f.c.decodeFeed(&p, found) // before p is read for the result
	return p, end, err
}

// Failing returns the changes of the keys, for each key from its number up to upTo, in order. They have no Object; Load
// returns it.
func (f *Feed) Failing(ctx context.Context, keys map[string]uint64, upTo uint64) (p FeedPage, err error) {
	var found []feedEntry
	err = f.c.view(ctx, func(b *bolt.Bucket) error {
		objects, err := f.c.objects(b)
		if err != nil {
			return err
		}
		first := upTo
		for key, from := range keys {
			first = min(first, from)
			data := objects.Get([]byte(key))
			if data == nil {
				continue
			}
			e, err := f.c.liveEntry(objects, key, data, false)
			if err != nil {
				return err
			}
			if e.Seq >= from && e.Seq <= upTo {
				found = append(found, e)
			}
		}
		return f.c.eachTombstone(b, first, func(e feedEntry) (bool, error) {
			if from, ok := keys[e.key]; ok && e.Seq >= from && e.Seq <= upTo {
				found = append(found, e)
			}
			return e.Seq < upTo, nil
		})
	})
	if err != nil {
		return FeedPage{}, err
	}
	slices.SortFunc(found, func(a, b feedEntry) int { return int(int64(a.Seq) - int64(b.Seq)) })
	err = f.c.decodeFeed(&p, found) // before p is read for the result
	return p, err
}

// Load returns a page with the change that has the Type, Key and Seq of c, with its Object. The page is empty if the
// object has changed since, or the tombstone was dropped.
func (f *Feed) Load(ctx context.Context, c FeedChange) (p FeedPage, err error) {
	var found []feedEntry
	err = f.c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, f.c.name)
		if err != nil {
			return err
		}
		_, tombstones, err := f.c.feedBuckets(b, st)
		if err != nil {
			return err
		}
		objects, err := f.c.objects(b)
		if err != nil {
			return err
		}
		var e feedEntry
		if c.Type == Delete {
			data := tombstones.Get(format.SeqKey(c.Seq))
			if data == nil {
				return nil
			}
			e, err = f.c.goneEntry(format.SeqKey(c.Seq), data, true)
		} else {
			data := objects.Get([]byte(c.Key))
			if data == nil {
				return nil
			}
			e, err = f.c.liveEntry(objects, c.Key, data, true)
		}
		if err == nil && e.Seq == c.Seq && e.key == c.Key {
			found = append(found, e)
		}
		return err
	})
	if err != nil {
		return FeedPage{}, err
	}
	err = f.c.decodeFeed(&p, found) // before p is read for the result
	return p, err
}

// feedEntry is a change that has been copied out of its transaction and is not decoded.
type feedEntry struct {
	rawRecord
	gone bool // whether it is a tombstone
	// keyOnly says that the change gets no Object; body is not set.
	keyOnly bool
}

func (r *reader) liveEntry(objects *bolt.Bucket, key string, data []byte, whole bool) (feedEntry, error) {
	h, payload, err := format.ParseRecord(r.name, key, data)
	if err != nil {
		return feedEntry{}, err
	}
	e := feedEntry{rawRecord: rawRecord{key: key, Header: h}, keyOnly: !whole}
	if !whole {
		return e, nil
	}
	if h.SealedBy == 0 {
		payload = slices.Clone(payload)
	}
	e.body, err = r.body(objects, key, h, payload)
	if errors.Is(err, entry.ErrIncompatible) {
		e.body.encoding, err = "", nil
	}
	return e, err
}

// readFeed returns the entries of the changelog after an offset, up to a page, and whether more follow. It merges live
// objects and tombstones, which never share a number. Entries have a body if whole is true.
func (r *reader) readFeed(
	b *bolt.Bucket, st state, after uint64, whole bool,
) (found []feedEntry, more bool, err error) {
	seqs, tombstones, err := r.feedBuckets(b, st)
	if err != nil {
		return nil, false, err
	}
	objects, err := r.objects(b)
	if err != nil {
		return nil, false, err
	}
	live, gone := boltfile.ScanAfter(seqs, string(format.SeqKey(after))),
		boltfile.ScanAfter(tombstones, string(format.SeqKey(after)))
	liveKey, key := live.Next()
	goneKey, data := gone.Next()
	size := 0
	for liveKey != nil || goneKey != nil {
		if len(found) == iterateObjects || size > iterateBytes {
			return found, true, nil
		}
		var e feedEntry
		if goneKey == nil || liveKey != nil && string(liveKey) < string(goneKey) {
			e, err = r.filedEntry(objects, liveKey, key, whole)
			liveKey, key = live.Next()
		} else {
			e, err = r.goneEntry(goneKey, data, whole)
			goneKey, data = gone.Next()
		}
		if err != nil {
			return nil, false, err
		}
		found, size = append(found, e), size+e.body.size
	}
	return found, false, errors.Join(live.Err, gone.Err)
}

// filedEntry returns the entry of the object that the changelog has under a number. It fails with ErrDamaged if the
// record does not exist or has another number.
func (r *reader) filedEntry(objects *bolt.Bucket, seqKey, key []byte, whole bool) (feedEntry, error) {
	data := objects.Get(key)
	if data == nil {
		return feedEntry{}, fmt.Errorf("the change feed of collection %s names %s, which is not there: %w", r.name,
			printable.Key(string(key)), entry.ErrDamaged)
	}
	e, err := r.liveEntry(objects, string(key), data, whole)
	if seq, ok := format.ParseSeqKey(seqKey); err == nil && (!ok || seq != e.Seq) {
		err = fmt.Errorf("the change feed of collection %s has %s at %x, and its record %d: %w", r.name,
			printable.Key(string(key)), seqKey, e.Seq, entry.ErrDamaged)
	}
	return e, err
}

func (r *reader) goneEntry(seqKey, data []byte, whole bool) (feedEntry, error) {
	seq, ok := format.ParseSeqKey(seqKey)
	if !ok {
		return feedEntry{}, fmt.Errorf("a tombstone of collection %s is under %x: %w", r.name, seqKey, entry.ErrDamaged)
	}
	t, err := format.ParseTombstone(r.name, seq, data)
	if err == nil && !whole {
		return feedEntry{gone: true, keyOnly: true, rawRecord: rawRecord{key: t.Key, Header: t.Header}}, nil
	}
	if err == nil {
		t.Payload, err = r.opener().Payload(format.BucketTombstones, t.Place(), t.Header, t.Payload)
	}
	return feedEntry{gone: true, rawRecord: rawRecord{
		key: t.Key, Header: t.Header, body: body{encoding: t.Encoding, payload: slices.Clone(t.Payload),
			size: len(t.Payload)},
	}}, err
}

// eachTombstone calls fn with the tombstones from a number on, until fn returns false.
func (c *Collection) eachTombstone(b *bolt.Bucket, from uint64, fn func(e feedEntry) (bool, error)) error {
	st, err := getState(b, c.name)
	if err != nil {
		return err
	}
	_, tombstones, err := c.feedBuckets(b, st)
	if err != nil || from == 0 {
		return err
	}
	keys := boltfile.ScanAfter(tombstones, string(format.SeqKey(from-1)))
	for k, data := keys.Next(); k != nil; k, data = keys.Next() {
		e, err := c.goneEntry(k, data, false)
		if err != nil {
			return err
		}
		if more, err := fn(e); err != nil || !more {
			return err
		}
	}
	return keys.Err
}

// decodeFeed decodes the entries and adds them to the page. It calls the codec, so the caller has no transaction open.
func (r *reader) decodeFeed(p *FeedPage, found []feedEntry) error {
	for _, e := range found {
		change := FeedChange{Type: Upsert, Key: e.key, UID: e.UID, ResourceVersion: e.RV, Seq: e.Seq, Created: e.FirstSeq()}
		if e.gone {
			change.Type, change.Created = Delete, 0
		}
		if e.keyOnly {
			p.Changes = append(p.Changes, change)
			continue
		}
		err := entry.ErrIncompatible
		if e.body.encoding != "" {
			err = guest.Try("the codec", func() (err error) {
				change.Object, err = r.decodeBody(e.key, e.body)
				return err
			})
		}
		switch {
		case isDamaged(err):
			return err
		case err != nil && !e.gone:
			p.Unreadable = append(p.Unreadable, e.key)
			continue
		}
		p.Changes = append(p.Changes, change)
	}
	return nil
}

func isDamaged(err error) bool { return errors.Is(err, entry.ErrDamaged) }
