package engine

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// WriterTarget describes the collection that a Writer writes.
type WriterTarget struct {
	Read       *Reader
	Compressor *crypt.Compressor  // Compressor is nil if the collection is not compressed.
	Cursors    *changelog.Cursors // Cursors are the cursors of the durable handlers.
	Tombstones int                // Tombstones is the maximum number of tombstones in the changelog.
	Now        func() boltfile.Times
	// Watched is true if watches resume from the changelog. The changelog then also has objects that were added and
	// deleted within one commit, and the Since of each object.
	Watched bool
	// Recorded is the number of the timeline of the history that the changelog continues, if Watched is true.
	Recorded uint64
}

// Writer is one write transaction of a collection. When it changes an object, it also updates the index entries, the
// object count and the newest objects. At the end call Log.Settle, and then Put, which writes State.
type Writer struct {
	WriterTarget
	State   CollectionState   // State is the collection's state, which Put stores.
	Log     *changelog.Writer // Log also assigns the sequence numbers of records.
	Indexes *IndexEntries
	// Repaired has the keys of damaged records that the transaction has replaced, or that were read without damage.
	Repaired []string

	bucket  *bolt.Bucket
	objects *bolt.Bucket
	dict    *crypt.Dictionary // dict is the dictionary that this transaction last found or stored in the file, or nil.
}

// BeginWriter begins to write a collection in a transaction. It fails with ErrNoCollection for a missing collection.
func BeginWriter(tx *bolt.Tx, t WriterTarget) (*Writer, error) {
	b, st, err := FindCollection(tx, t.Read.Name)
	if err != nil {
		return nil, err
	}
	w := &Writer{WriterTarget: t, State: st, bucket: b}
	if w.objects, err = t.Read.Objects(b); err != nil {
		return nil, err
	}
	if err := t.Read.Coder.Ensure(tx); err != nil {
		return nil, err
	}
	if w.Indexes, err = OpenIndexEntries(t.Read.Name, b, st.Indexes); err != nil {
		return nil, err
	}
	w.Log, err = changelog.NewWriter(b, t.Read.Name, &w.State.Log, t.Cursors, changelog.Outside{
		MaxTombstones: t.Tombstones, Now: t.Now, First: !st.Complete, AppendRecord: t.Read.Coder.Append,
	})
	return w, err
}

// Put writes the collection's state. Call it after all other changes of the transaction.
func (w *Writer) Put() error { return PutState(w.bucket, w.Read.Name, w.State) }

// replace writes the object of x in place of old, the record under its key. If x is a delete, it removes old.
func (w *Writer) replace(x *Write, old StoredRecord) (err error) {
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

func (w *Writer) get(key string) (StoredRecord, error) {
	return w.Read.Stored(w.objects, key)
}

func (w *Writer) put(x *Write, old StoredRecord) error {
	if old.Found && old.UID != x.UID {
		if err := w.addTombstone(x.Key, old, nil); err != nil {
			return err
		}
	}
	terms := w.Read.Coder.Store(x.Terms)
	same := uint64(0)
	if x.SameObject {
		same = old.Seq
	}
	h := format.Header{UID: x.UID, RV: x.RV, Seq: w.Log.Seq(same), Terms: terms,
		Encoding: cmp.Or(x.Encoding, w.Read.Codec.Name())}
	if old.Found && old.UID == x.UID {
		h.Created = old.FirstSeq()
	}
	if w.Watched && w.Log.Kept() {
		if h.Since = x.Since; old.Found {
			h.Since = old.Since
		}
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
	if err := w.Indexes.Move(x.Key, old.Terms, terms); err != nil {
		return err
	}
	if err := w.Log.Put(x.Key, h.Seq, old.Seq); err != nil {
		return err
	}
	if !old.Found {
		w.State.Objects++
	}
	ref := entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}
	w.State.Newest = OfferRef(w.State.Newest, ref, NewestRefs)
	return nil
}

// useDictionary stores d, a dictionary that a record uses, if the file does not have it. If the compressor uses d for
// new records, it also sets State.Dictionary.
func (w *Writer) useDictionary(d *crypt.Dictionary) error {
	if w.dict == d {
		return nil
	}
	if err := w.Read.Coder.Put(w.bucket, d); err != nil {
		return fmt.Errorf("store dictionary %016x: %w", d.ID, err)
	}
	w.dict = d
	if w.Compressor.Using() == d {
		w.State.Dictionary = d.ID
	}
	return nil
}

func (w *Writer) putRecord(key string, h format.Header, payload []byte) error {
	return w.objects.Put([]byte(key), w.Read.Coder.Append(nil, format.BucketObjects, key, h, payload))
}

// remove deletes old, the record under key, and its index entries. x is the server's delete event, or nil.
func (w *Writer) remove(key string, old StoredRecord, x *Write) error {
	w.State.Newest = DropRef(w.State.Newest, key)
	if !old.Found {
		if w.Watched && w.Log.Kept() && x != nil && x.Since != "" && x.RV != "" {
			return w.Log.AddTombstone(key, 0, w.lastOf(x), x.Payload)
		}
		return nil
	}
	if err := w.addTombstone(key, old, x); err != nil {
		return err
	}
	if err := w.Indexes.Move(key, old.Terms, nil); err != nil {
		return err
	}
	w.State.Objects--
	return w.objects.Delete([]byte(key))
}

// lastOf returns the header for a tombstone with the last state in the delete x, if x has one.
func (w *Writer) lastOf(x *Write) format.Header {
	h := format.Header{UID: x.UID, RV: x.RV, Since: x.Since}
	if x.Payload != nil {
		h.Encoding = cmp.Or(x.Encoding, w.Read.Codec.Name())
	}
	return h
}

// addTombstone adds a tombstone for the object in old, if there is a changelog. x is the delete event, or nil if
// another object replaces the old one.
func (w *Writer) addTombstone(key string, old StoredRecord, x *Write) error {
	if !w.Log.Kept() {
		return nil
	}
	if x != nil && x.UID == old.UID && x.UID != "" && x.Payload != nil {
		h := w.lastOf(x)
		h.Created, h.Since = old.FirstSeq(), old.Since
		return w.Log.AddTombstone(key, old.Seq, h, x.Payload)
	}
	h := format.Header{UID: old.UID, RV: old.RV, Encoding: old.Encoding, Created: old.FirstSeq(), Since: old.Since}
	if x != nil && x.RV != "" {
		h.RV = x.RV
	}
	b, err := w.Read.Coder.OpenPlain(old.Objects, key, old.Header, old.Payload)
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return err
	case err != nil:
		h.Encoding, b.Payload = "", nil // This program cannot read the last state.
	}
	return w.Log.AddTombstone(key, old.Seq, h, b.Payload)
}

func (w *Writer) dropDictionaries() error {
	needed, err := w.Read.Coder.Drop(w.bucket, w.objects, w.Compressor.Using())
	if needed != nil && !needed[w.State.Dictionary] {
		w.State.Dictionary = 0
	}
	return err
}

// coldFill is the fraction of each page that bbolt fills in a bucket that is written in key order.
const coldFill = 0.95

// Commit writes a snapshot of the memtable, and returns the cursors that it has written.
func (w *Writer) Commit(snap *MemtableSnapshot[Covers]) (cursors *changelog.Snapshot, err error) {
	if first, ok := snap.First(); ok {
		if last, _ := w.objects.Cursor().Last(); string(last) < first { // New keys follow all stored keys: a cold start.
			w.objects.FillPercent = coldFill
		}
	}
	for _, x := range snap.Writes(w.Log.Kept()) { // Writes are in the order of their sequence numbers.
		old, err := w.old(x.Key)
		if err == nil {
			err = w.replace(x, old)
		}
		if err != nil {
			return nil, err
		}
	}
	if !snap.Idle {
		before := w.State.ResourceVersion
		w.State.Follow(snap.Info.Info)
		if !w.Watched || !w.Log.Kept() || snap.Info.Timeline != w.Recorded {
			w.breakHistory(before, snap)
		}
	}
	if err := w.noteDamage(); err != nil {
		return nil, err
	}
	if cursors, err = w.Log.Settle(false); err != nil {
		return nil, err
	}
	if snap.Info.EndedList != nil && snap.Info.EndedList.Rewritten {
		if err := w.dropDictionaries(); err != nil && !format.IsDamagedRecord(err) {
			return nil, err
		}
	}
	return cursors, w.Put()
}

// old returns the record under key. It removes a damaged record, with the index entries and the changelog entry of its
// key, as if the file had no record: the sequence number and the terms in its header are unknown.
func (w *Writer) old(key string) (StoredRecord, error) {
	old, err := w.get(key)
	if !format.IsDamagedRecord(err) {
		return old, err
	}
	w.State.Objects--
	return StoredRecord{}, errors.Join(w.Indexes.Purge(key), w.Log.Break(key), w.objects.Delete([]byte(key)))
}

// noteDamage sets MustRelist if a damaged record that was found is still damaged, and otherwise adds its key to
// Repaired.
func (w *Writer) noteDamage() error {
	for _, key := range w.Read.File.Damaged(w.Read.Name) {
		now, err := w.get(key)
		if err == nil && now.Found {
			err = w.Read.Coder.Verify(format.BucketObjects, key, now.Header, now.Payload)
		}
		switch {
		case err == nil:
			w.Repaired = append(w.Repaired, key)
		case !errors.Is(err, entry.ErrDamaged):
			return err
		case w.State.MustRelist == "":
			w.State.MustRelist = format.MustRelistDamaged
		}
	}
	return nil
}

// breakHistory notes in the changelog that its changes do not lead from earlier states to the state being committed. A
// watch can continue from the new resourceVersion, unless a reader may have received another state with that
// resourceVersion. before is the previous resourceVersion of the file.
func (w *Writer) breakHistory(before string, snap *MemtableSnapshot[Covers]) {
	from := w.State.ResourceVersion
	switch {
	case w.Watched:
		if entry.NewerRV(snap.Info.Oldest, from) {
			from = snap.Info.Oldest
		}
	case from == before && snap.Len() == 0:
		return
	case from == before:
		n, _ := strconv.ParseUint(from, 10, 64)
		from = strconv.FormatUint(n+1, 10)
	}
	w.State.Log.ListedSeq, w.State.Log.ListedRV = w.State.Log.Last(), from
}

// Retain sets how long the changelog keeps changes for readers without a cursor. A new changelog continues from the
// current state of the file.
func (w *Writer) Retain(retain time.Duration) error {
	kept := w.State.Log.Kept()
	if err := w.Log.Retain(retain); err != nil || kept || !w.State.Log.Kept() || w.State.Log.ListedRV == "" {
		return err
	}
	w.State.Log.ListedSeq = w.State.Log.Last()
	if at := w.State.ResourceVersion; entry.NewerRV(at, w.State.Log.ListedRV) {
		w.State.Log.ListedRV = at
	}
	return nil
}

// Reindex replaces the terms of a record in the named indexes with its Renewed terms, which an index build has
// computed. In a sealed collection the new record is sealed. The record keeps its Seq, since the object has not
// changed. Reindex does nothing if the object has changed since the record was read.
func (w *Writer) Reindex(record IndexedRecord, names []string) error {
	old, err := w.get(record.Key)
	if err != nil || !old.Found || old.Seq != record.Seq {
		return err
	}
	terms, err := w.Read.Coder.Terms(record.Key, old.Header)
	if err != nil {
		return err
	}
	h := old.Header
	h.Terms = w.Read.Coder.Store(ReplaceTerms(terms, names, record.Renewed))
	payload, err := w.Read.Coder.Payload(format.BucketObjects, record.Key, old.Header, old.Payload)
	if err != nil {
		return err
	}
	// putRecord copies the payload before bbolt replaces the record that contains it.
	if err := w.putRecord(record.Key, h, payload); err != nil {
		return err
	}
	return w.Indexes.Move(record.Key, old.Terms, h.Terms)
}
