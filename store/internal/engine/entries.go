package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// Entries calls fn for each committed record whose key follows after, in key order; see store.Store.Records.
func (r *Reader) Entries(ctx context.Context, after string, fn func(entry.Entry) error) error {
	all := count{whole: after == ""}
	for {
		page, more, err := r.entryPage(ctx, after, &all)
		for _, one := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := r.entryOf(one)
			if err != nil {
				return err
			}
			if err := fn(e); err != nil {
				return err
			}
			after = one.Key
		}
		if err != nil {
			return err
		}
		if !more {
			return ctx.Err()
		}
	}
}

// count counts the records that are read page by page, to notice missing records.
type count struct {
	whole   bool // whole is true if the pages start at the first record.
	records int
	commit  int // commit is the id of the last transaction that the first page sees.
}

// add adds a page of records. After the last page, it fails if the number of records is not the one in the collection's
// info, unless there was a commit since the first page.
func (c *count) add(r *Reader, b *bolt.Bucket, records int, last bool) error {
	if c.records == 0 {
		c.commit = b.Tx().ID()
	}
	c.records += records
	if !last || !c.whole || c.commit != b.Tx().ID() {
		return nil
	}
	st, err := GetState(b, r.Name)
	if err != nil {
		return err
	}
	return r.Counted(c.records, st.Objects)
}

func (r *Reader) Entry(ctx context.Context, key string) (e entry.Entry, found bool, err error) {
	var one rawStored
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		if data := objects.Get([]byte(key)); data != nil {
			one, found = r.copyStored(objects, []byte(key), data, slices.Clone), true
		}
		return nil
	})
	if err != nil || !found {
		return e, false, err
	}
	e, err = r.entryOf(one)
	return e, err == nil, err
}

// EntriesOf returns the committed records with these keys from one snapshot. It skips missing and unreadable records.
func (r *Reader) EntriesOf(ctx context.Context, keys []string) (found []entry.Entry, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var all []rawStored
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if data := objects.Get([]byte(key)); data != nil {
				all = append(all, r.copyStored(objects, []byte(key), data, slices.Clone))
			}
		}
		return nil
	})
	for _, one := range all {
		if e, err := r.entryOf(one); err == nil {
			found = append(found, e)
		}
	}
	return found, err
}

// rawStored is a record that was copied out of its transaction. If err is not nil, only key is set.
type rawStored struct {
	Record
	err     error
	written *entry.Entry // written is the memtable's write that replaces the record, or nil.
}

func (one rawStored) size() int {
	if one.written != nil {
		return len(one.written.Payload)
	}
	return one.Body.Size
}

// entryPage reads the page of records after the given key, counts them in all, and returns whether more records may
// follow. If it fails, it returns the records read so far.
func (r *Reader) entryPage(ctx context.Context, after string, all *count) (page []rawStored, more bool, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		keys, size := boltfile.ScanAfter(objects, after), 0
		for k, data := keys.Next(); k != nil && !more; k, data = keys.Next() {
			one := r.copyStored(objects, k, data, slices.Clone)
			page, size = append(page, one), size+one.Body.Size
			more = len(page) == PageObjects || size >= PageBytes
		}
		return cmp.Or(keys.Err, all.add(r, b, len(page), !more))
	})
	return page, more, err
}

// copyStored copies a record out of its transaction, the payload with clone.
func (r *Reader) copyStored(objects *bolt.Bucket, k, data []byte, clone func([]byte) []byte) (one rawStored) {
	key := string(k)
	if len(k) > entry.MaxKey {
		one.err = fmt.Errorf("key %s in collection %s: %w", base.PrintableKey(key), r.Name, entry.ErrDamaged)
	} else {
		one.Record, one.err = r.cloneRecord(objects, key, data, clone)
	}
	one.Key = key
	return one
}

// entryOf decompresses a copied record. Call it without an open transaction.
func (r *Reader) entryOf(one rawStored) (entry.Entry, error) {
	if one.written != nil {
		return *one.written, nil
	}
	b, err := one.Body, one.err
	if err == nil {
		b, err = r.Coder.Plain(one.Key, b, nil)
	}
	if err != nil {
		return entry.Entry{}, &entry.RecordError{Key: one.Key, Err: err}
	}
	return entry.Entry{Key: one.Key, UID: one.UID, ResourceVersion: one.RV, Encoding: one.Encoding, Payload: b.Payload},
		nil
}
