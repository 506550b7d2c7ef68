package engine

import (
	"strconv"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
)

// coldFill is the fraction of each page that bbolt fills in a bucket that is written in key order.
const coldFill = 0.95

// Commit writes a snapshot of the memtable, and returns the cursors that it has written. losses is how many times a
// rebuild has lost objects of the collection (Collection.Losses).
func (w *Writer) Commit(snap *MemtableSnapshot[Covers], losses int) (cursors *changelog.Snapshot, err error) {
	if first, ok := snap.First(); ok {
		if last, _ := w.objects.Cursor().Last(); string(last) < first { // New keys follow all stored keys: a cold start.
			w.objects.FillPercent = coldFill
		}
	}
	for _, x := range snap.Writes(w.Log.Kept()) { // Writes are in the order of their sequence numbers.
		old, err := w.get(x.Key)
		if err == nil && (!old.Found || old.UID == x.UID || !snap.Overtaken(x, old.UID)) {
			err = w.replace(x, old)
		} // Otherwise an earlier attempt was committed, although it returned an error: the file has a later state.
		if err != nil {
			return nil, err
		}
	}
	if !snap.Idle {
		before := w.State.ResourceVersion
		w.cover(snap.Info, losses)
		if !w.Watched || !w.Log.Kept() || snap.Info.Timeline != w.Recorded {
			w.breakHistory(before, snap)
		}
		if w.State.Newest, err = w.stillStored(snap.Info.Newest); err != nil {
			return nil, err
		}
	}
	if cursors, err = w.Log.Settle(false); err != nil {
		return nil, err
	}
	if snap.Info.EndedList != nil && snap.Info.EndedList.Rewritten {
		if err := w.dropDictionaries(); err != nil {
			return nil, err
		}
	}
	return cursors, w.Put()
}

// stillStored returns the references to objects that are still stored. A rebuild may have lost others.
func (w *Writer) stillStored(refs []entry.ObjectRef) (have []entry.ObjectRef, err error) {
	for _, ref := range refs {
		now, err := w.get(ref.Key)
		if err != nil {
			return nil, err
		}
		if now.Found && now.UID == ref.UID && now.RV == ref.ResourceVersion {
			have = append(have, ref)
		}
	}
	return have, nil
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

// cover updates the collection's stored state from now, the Info that covers the writes. It keeps a MustRelist that a
// rebuild has set meanwhile, unless a list has ended after the rebuild.
func (w *Writer) cover(now Covers, losses int) {
	due := w.State.MustRelist
	w.State.Follow(now.Info)
	if w.State.MustRelist == "" && (now.EndedList == nil || now.EndedList.Losses != losses) {
		w.State.MustRelist = due
	}
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
