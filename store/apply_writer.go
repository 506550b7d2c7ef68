package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/intake"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// writer is one write transaction of a collection. Whenever it changes an object, it updates the index entries, the
// object count and Newest too.
type writer struct {
	c       *Collection
	bucket  *bolt.Bucket
	objects *bolt.Bucket
	indexes *index.Entries
	state   state                // written at the end of the transaction
	dict    *compress.Dictionary // dictionary that this transaction has found or stored in the file; nil if none
	log     *changelog.Writer    // also gives records their numbers
}

// lockWrites locks mu, and fails if ctx ends first: a goroutine that waits for the disk may hold mu for long. Lock
// order: mu, then commits.takeTurn, then boltfile.File.TakeWriter.
func (c *Collection) lockWrites(ctx context.Context) error {
	if err := c.mu.LockContext(ctx); err != nil {
		return fmt.Errorf("wait for another write of %s: %w", c.id, err)
	}
	return nil
}

// update runs fn in one write transaction.
func (c *Collection) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.store.file.Update(ctx, c.writing(), fn)
}

// writing describes a write of the collection.
func (c *Collection) writing() boltfile.Work {
	return boltfile.Work{What: "a write of " + c.id.String()}
}

func (c *Collection) writeLocked(ctx context.Context, fn func(w *writer) error) error {
	return c.writeLockedFor(ctx, c.writing(), fn)
}

// writeLockedFor runs fn in a write transaction with a writer of the collection. The caller holds mu. what describes
// the write to those who wait for it.
func (c *Collection) writeLockedFor(ctx context.Context, what boltfile.Work, fn func(w *writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.readOnly {
		return ErrReadOnly
	}
	var cursors *changelog.Snapshot
	return c.store.file.UpdateThen(ctx, what, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, c.name)
		if err != nil {
			return err
		}
		w, err := newWriter(c, b)
		if err != nil {
			return err
		}
		if err := fn(w); err != nil {
			return err
		}
		if cursors, err = w.log.Settle(false); err != nil {
			return err
		}
		return putState(b, c.name, w.state)
	}, func(err error) { // runs before the next writer
		c.noteCursors(cursors, err)
	})
}

func newWriter(c *Collection, b *bolt.Bucket) (*writer, error) {
	st, err := getState(b, c.name)
	if err != nil {
		return nil, err
	}
	w := &writer{c: c, bucket: b, state: st}
	if w.objects, err = c.objects(b); err != nil {
		return nil, err
	}
	if err := c.coder.Ensure(b.Tx()); err != nil {
		return nil, err
	}
	if w.indexes, err = index.OpenEntries(c.name, b, st.indexes); err != nil {
		return nil, err
	}
	w.log, err = changelog.NewWriter(b, c.name, &w.state.log, &c.cursors, c.outside())
	return w, err
}

// stored is the record that the file has under a key. It is valid until the transaction ends.
type stored struct {
	format.Header
	found   bool         // false if the file has no record; the other fields are zero then
	payload []byte       // memory of the transaction
	objects *bolt.Bucket // bucket that the record is in
}

// replace writes x in place of old, the record under its key; if x is a delete, it removes the record.
func (w *writer) replace(x *memtable.Write, old stored) (err error) {
	if x.Del {
		err = w.remove(x.Key, old, x)
	} else {
		err = w.put(x, old)
	}
	if err != nil {
		return fmt.Errorf("object %q: %w", x.Key, err)
	}
	return nil
}

func (w *writer) get(key string) (stored, error) {
	return w.c.stored(w.objects, key)
}

func (r *reader) stored(objects *bolt.Bucket, key string) (stored, error) {
	data := objects.Get([]byte(key))
	if data == nil {
		return stored{}, nil
	}
	h, payload, err := format.ParseRecord(r.name, key, data)
	return stored{Header: h, found: true, payload: payload, objects: objects}, err
}

// object decodes a stored record. It returns nil for a record that this program cannot decode: no reader can have seen
// its object. An error wraps ErrDamaged.
func (r *reader) object(key string, s stored) (runtime.Object, error) {
	if !s.found {
		return nil, nil
	}
	obj, err := r.coder.ObjectOf(s.objects, key, s.Header, s.payload)
	if err != nil && !errors.Is(err, entry.ErrDamaged) {
		return nil, nil //nolint:nilerr // see above
	}
	return obj, err
}

// before returns the object of a stored record: the one in memory if it has the same version, else it decodes the
// record as object does.
func (c *Collection) before(key string, s stored) (runtime.Object, error) {
	if r := c.inMemory(); r != nil && s.found {
		if now := r.State(key); now != nil && now.UID == s.UID && now.RV == s.RV {
			return now.Obj, nil
		}
	}
	return c.object(key, s)
}

// put stores x in place of old.
func (w *writer) put(x *memtable.Write, old stored) error {
	if old.found && old.UID != x.UID {
		if err := w.bury(x.Key, old, x); err != nil {
			return err
		}
	}
	terms := w.c.coder.Store(x.Terms)
	same := uint64(0)
	if x.SameObject {
		same = old.Seq
	}
	h := format.Header{UID: x.UID, RV: x.RV, Seq: w.log.Seq(same), Terms: terms,
		Encoding: cmp.Or(x.Encoding, w.c.codec.Name())}
	if old.found && old.UID == x.UID {
		h.Created = old.FirstSeq()
	}
	payload := x.Payload
	if x.Dict != nil {
		payload, h.Dictionary, h.Size = x.Compressed, x.Dict.ID, len(x.Payload)
		if err := w.useDictionary(x.Dict); err != nil {
			return err
		}
	}
	if err := w.putRecord(x.Key, h, payload); err != nil {
		return err
	}
	if err := w.indexes.Move(x.Key, old.Terms, terms); err != nil {
		return err
	}
	if err := w.log.Put(x.Key, h.Seq, old.Seq); err != nil {
		return err
	}
	if !old.found {
		w.state.Objects++
	}
	ref := entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}
	w.state.Newest = intake.OfferRef(w.state.Newest, ref, intake.NewestRefs)
	return nil
}

// useDictionary stores d, which a record names, if the file does not have it. If the compressor uses d for new records,
// it is noted in the state as well.
func (w *writer) useDictionary(d *compress.Dictionary) error {
	if w.dict == d {
		return nil
	}
	if err := w.c.coder.Put(w.bucket, d); err != nil {
		return fmt.Errorf("store dictionary %016x: %w", d.ID, err)
	}
	w.dict = d
	if w.c.compressor.Using() == d {
		w.state.dictionary = d.ID
	}
	return nil
}

func (w *writer) putRecord(key string, h format.Header, payload []byte) error {
	return w.objects.Put([]byte(key), w.c.coder.Append(nil, format.BucketObjects, key, h, payload))
}

// remove deletes old, the record under key. x is the delete as the server reported it, or nil.
func (w *writer) remove(key string, old stored, x *memtable.Write) error {
	w.state.Newest = intake.DropRef(w.state.Newest, key)
	if !old.found {
		return nil
	}
	if err := w.bury(key, old, x); err != nil {
		return err
	}
	if err := w.indexes.Move(key, old.Terms, nil); err != nil {
		return err
	}
	w.state.Objects--
	return w.objects.Delete([]byte(key))
}
