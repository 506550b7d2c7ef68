package store

import (
	"cmp"
	"context"
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
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// writer is one write transaction of a collection. Whenever it changes an object, it updates the index entries, the
// object count and Newest too.
type writer struct {
	c       *Collection
	bucket  *bolt.Bucket
	objects *bolt.Bucket
	indexes *index.Entries
	state   state.State          // written at the end of the transaction
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
		b, err := state.Bucket(tx, c.read.Name)
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
		return state.Put(b, c.read.Name, w.state)
	}, func(err error) { // runs before the next writer
		c.noteCursors(cursors, err)
	})
}

func newWriter(c *Collection, b *bolt.Bucket) (*writer, error) {
	st, err := state.Get(b, c.read.Name)
	if err != nil {
		return nil, err
	}
	w := &writer{c: c, bucket: b, state: st}
	if w.objects, err = c.read.Objects(b); err != nil {
		return nil, err
	}
	if err := c.read.Coder.Ensure(b.Tx()); err != nil {
		return nil, err
	}
	if w.indexes, err = index.OpenEntries(c.read.Name, b, st.Indexes); err != nil {
		return nil, err
	}
	w.log, err = changelog.NewWriter(b, c.read.Name, &w.state.Log, &c.cursors, c.outside())
	return w, err
}

// replace writes x in place of old, the record under its key; if x is a delete, it removes the record.
func (w *writer) replace(x *memtable.Write, old read.Stored) (err error) {
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

func (w *writer) get(key string) (read.Stored, error) {
	return w.c.read.Stored(w.objects, key)
}

// before returns the object of a stored record: the one in memory if it has the same version, else it decodes the
// record as object does.
func (c *Collection) before(key string, s read.Stored) (runtime.Object, error) {
	if r := c.inMemory(); r != nil && s.Found {
		if now := r.State(key); now != nil && now.UID == s.UID && now.RV == s.RV {
			return now.Obj, nil
		}
	}
	return c.read.Object(key, s)
}

// put stores x in place of old.
func (w *writer) put(x *memtable.Write, old read.Stored) error {
	if old.Found && old.UID != x.UID {
		if err := w.bury(x.Key, old, x); err != nil {
			return err
		}
	}
	terms := w.c.read.Coder.Store(x.Terms)
	same := uint64(0)
	if x.SameObject {
		same = old.Seq
	}
	h := format.Header{UID: x.UID, RV: x.RV, Seq: w.log.Seq(same), Terms: terms,
		Encoding: cmp.Or(x.Encoding, w.c.read.Codec.Name())}
	if old.Found && old.UID == x.UID {
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
	if !old.Found {
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
	if err := w.c.read.Coder.Put(w.bucket, d); err != nil {
		return fmt.Errorf("store dictionary %016x: %w", d.ID, err)
	}
	w.dict = d
	if w.c.compressor.Using() == d {
		w.state.Dictionary = d.ID
	}
	return nil
}

func (w *writer) putRecord(key string, h format.Header, payload []byte) error {
	return w.objects.Put([]byte(key), w.c.read.Coder.Append(nil, format.BucketObjects, key, h, payload))
}

// remove deletes old, the record under key. x is the delete as the server reported it, or nil.
func (w *writer) remove(key string, old read.Stored, x *memtable.Write) error {
	w.state.Newest = intake.DropRef(w.state.Newest, key)
	if !old.Found {
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
