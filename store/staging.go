package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// stagedKind is what a relist will make of one key.
type stagedKind uint8

const (
	stagedSame   stagedKind = iota // what is on disk stays; overrides an earlier entry that has been spilled
	stagedPut                      // the object is new or differs
	stagedDelete                   // the object is on disk and, so far, not in the list
)

// other returns the other one of the kinds that change something, which are those that the bucket has.
func (k stagedKind) other() stagedKind {
	switch k {
	case stagedPut:
		return stagedDelete
	case stagedDelete:
		return stagedPut
	}
	return stagedSame
}

// staged is one difference between the list and the disk.
type staged struct {
	kind stagedKind
	// event: it comes from a watched event, and yields only to a listed state that is newer.
	event bool
	// write is the object, without obj; for a delete key and rv only.
	write
}

// size is roughly what the entry takes in memory or in a transaction.
func (s *staged) size() int {
	n := 128 + len(s.key) + len(s.uid) + len(s.rv) + len(s.payload)
	for name, values := range s.terms {
		n += len(name) + 48
		for _, value := range values {
			n += len(value) + 16
		}
	}
	return n
}

// staging holds the differences that a relist has found, each key once: in
// memory up to a bound, and beyond it in a bucket that the next open drops.
type staging struct {
	c       *Collection
	mem     map[string]*staged
	order   []string // the keys of mem, sorted; nil if they have to be sorted anew
	bytes   int      // of mem
	spilled bool
}

// clear drops what an earlier relist may have left.
func (s *staging) clear(ctx context.Context) error {
	s.mem, s.order, s.bytes, s.spilled = map[string]*staged{}, nil, 0, false
	left := false
	err := s.c.view(ctx, func(b *bolt.Bucket) error {
		left = b.Bucket(format.BucketStaging) != nil
		return nil
	})
	if err != nil || !left {
		return err
	}
	return s.c.updateStaging(ctx, dropStaging)
}

// get returns what is staged for key, or nil. b is the collection's bucket.
func (s *staging) get(b *bolt.Bucket, key string) (*staged, error) {
	if e := s.mem[key]; e != nil || !s.spilled {
		return e, nil
	}
	spill, err := s.bucket(b)
	if err != nil {
		return nil, err
	}
	data := spill.Get([]byte(key))
	if data == nil {
		return nil, nil
	}
	return s.parse(key, data)
}

// set stages e in the place of what is staged for its key.
func (s *staging) set(e *staged) {
	if old := s.mem[e.key]; old != nil {
		s.bytes -= old.size()
	} else {
		s.order = nil
	}
	if e.kind == stagedSame && !s.spilled {
		delete(s.mem, e.key)
		s.order = nil
		return
	}
	s.mem[e.key] = e
	s.bytes += e.size()
}

// spillIfLarge moves the entries to the bucket if they are too many for memory.
func (s *staging) spillIfLarge(ctx context.Context) error {
	if s.bytes <= s.c.limits.staging {
		return nil
	}
	return s.spill(ctx)
}

// gather brings all entries into one place, so that each can read them in order.
func (s *staging) gather(ctx context.Context) error {
	if s.spilled && len(s.mem) > 0 {
		return s.spill(ctx)
	}
	return nil
}

func (s *staging) spill(ctx context.Context) error {
	err := s.c.updateStaging(ctx, func(b *bolt.Bucket) error {
		spill, err := b.CreateBucketIfNotExists(format.BucketStaging)
		if err != nil {
			return err
		}
		if s.c.sealing.Load() {
			if err := s.c.store.keys.ensure(b.Tx()); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.mem)) {
			e := s.mem[key]
			if e.kind == stagedSame {
				err = spill.Delete([]byte(key))
			} else {
				err = spill.Put([]byte(key), s.append(e))
			}
			if err != nil {
				return fmt.Errorf("stage %q: %w", key, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mem, s.order, s.bytes, s.spilled = map[string]*staged{}, nil, 0, true
	return nil
}

// each calls fn with the entries of one kind whose keys follow the given one, in key
// order, until fn returns false. It must follow gather.
func (s *staging) each(b *bolt.Bucket, kind stagedKind, after string, fn func(*staged) (bool, error)) error {
	if !s.spilled {
		return s.eachInMemory(kind, after, fn)
	}
	spill, err := s.bucket(b)
	if err != nil {
		return err
	}
	keys := scanAfter(spill, after)
	for k, data := keys.next(); k != nil; k, data = keys.next() {
		if len(data) > 0 && stagedKind(data[0]).other() == kind {
			continue // it is parsed when its kind is asked for
		}
		e, err := s.parse(string(k), data)
		if err != nil {
			return err
		}
		if more, err := fn(e); err != nil || !more {
			return err
		}
	}
	return keys.err
}

func (s *staging) eachInMemory(kind stagedKind, after string, fn func(*staged) (bool, error)) error {
	if s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.mem))
	}
	at, found := slices.BinarySearch(s.order, after)
	if found {
		at++
	}
	for _, key := range s.order[at:] {
		e := s.mem[key]
		if e.kind != kind {
			continue
		}
		if more, err := fn(e); err != nil || !more {
			return err
		}
	}
	return nil
}

// discard drops everything; what it can not drop the next open does.
func (s *staging) discard(ctx context.Context) error {
	if !s.spilled {
		return nil
	}
	return s.clear(ctx)
}

// bucket returns the bucket that entries were spilled to. Rebuild does not copy it.
func (s *staging) bucket(b *bolt.Bucket) (*bolt.Bucket, error) {
	spill := b.Bucket(format.BucketStaging)
	if spill == nil {
		return nil, fmt.Errorf("collection %s has no list that is staged: %w", s.c.name, ErrReplaceLost)
	}
	return spill, nil
}

// stagedFixed is how many bytes of an entry come before its record.
const stagedFixed = 2

// append encodes an entry for the bucket: its kind, whether it is an event's, and a record.
func (s *staging) append(e *staged) []byte {
	var event byte
	if e.event {
		event = 1
	}
	h := format.Header{UID: e.uid, RV: e.rv, Encoding: s.c.codec.Name(), Terms: s.c.storedTerms(e.terms)}
	return s.c.appendRecord([]byte{byte(e.kind), event}, format.BucketStaging, e.key, h, e.payload)
}

// parse is the reverse of append. The entry shares memory with data, which
// dies with the transaction.
func (s *staging) parse(key string, data []byte) (*staged, error) {
	if len(data) < stagedFixed || stagedKind(data[0]).other() == stagedSame {
		return nil, fmt.Errorf("staged entry %q of collection %s: %w", key, s.c.name, entry.ErrDamaged)
	}
	h, payload, err := format.ParseRecord(s.c.name, key, data[stagedFixed:])
	if err == nil {
		payload, err = s.c.opened(format.BucketStaging, key, h, payload)
	}
	if err == nil {
		h.Terms, err = s.c.plainTerms(key, h)
	}
	if err != nil {
		return nil, err
	}
	return &staged{
		kind: stagedKind(data[0]), event: data[1] == 1,
		write: write{key: key, uid: h.UID, rv: h.RV, terms: h.Terms, payload: payload},
	}, nil
}

// updateStaging calls fn with the collection's bucket in a write transaction.
func (c *Collection) updateStaging(ctx context.Context, fn func(b *bolt.Bucket) error) error {
	return c.update(ctx, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, c.name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}
