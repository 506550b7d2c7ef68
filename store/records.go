package store

import (
	"cmp"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// RecordError is the error for a record that cannot be read. Key is its key: call Records again with that as after to
// go on with the next record.
type RecordError struct {
	Key string
	Err error
}

func (e *RecordError) Error() string { return e.Err.Error() } // which names the key
func (e *RecordError) Unwrap() error { return e.Err }

// Records calls fn for each committed record of a collection whose key follows after, in the byte order of keys. The
// collection may be open or not. Records reads pages, and no transaction is open while fn runs. Each page is
// consistent; so are all pages together if nobody writes meanwhile, as in a copy by CopyFile. The caller owns the
// records.
//
// It returns the error of fn, or ErrNoCollection. At a record that cannot be read it returns a RecordError that wraps
// ErrDamaged, or ErrIncompatible if a newer program wrote the record. Other damage to a page is an error that wraps
// ErrDamaged too.
func (s *Store) Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	r := s.reader(id.ID(), nil)
	all := count{whole: after == ""}
	for {
		page, more, err := recordPage(ctx, &r, after, &all)
		for _, one := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := entryOf(&r, one)
			if err != nil {
				return fmt.Errorf("read %s: %w", id, err)
			}
			if err := fn(e); err != nil {
				return err
			}
			after = one.Key
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		if !more {
			return ctx.Err()
		}
	}
}

// count counts the records that are read page by page.
type count struct {
	whole   bool // true if the first record was read, too
	records int
	commit  int // id of the transaction that committed what the first page has
}

// add adds a page of records. If it is the last one it fails if the collection's state says another number, unless
// something was committed since the first page.
func (c *count) add(r *read.Reader, b *bolt.Bucket, records int, last bool) error {
	if c.records == 0 {
		c.commit = b.Tx().ID()
	}
	c.records += records
	if !last || !c.whole || c.commit != b.Tx().ID() {
		return nil
	}
	st, err := state.Get(b, r.Name)
	if err != nil {
		return err
	}
	return r.Counted(c.records, st.Objects)
}

// Record returns the record with that key, and whether it exists. It fails as Records does.
func (s *Store) Record(ctx context.Context, id entry.Identity, key string) (e entry.Entry, found bool, err error) {
	if id, err = id.Canonical(); err != nil {
		return e, false, err
	}
	r := s.reader(id.ID(), nil)
	var one rawStored
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		if data := objects.Get([]byte(key)); data != nil {
			one, found = copyStored(&r, objects, []byte(key), data), true
		}
		return nil
	})
	if err != nil || !found {
		return e, false, err
	}
	if e, err = entryOf(&r, one); err != nil {
		return e, false, fmt.Errorf("read %s: %w", id, err)
	}
	return e, true, nil
}

// rawStored is a record that was copied out of its transaction. If err is not nil, only key is set.
type rawStored struct {
	read.Record
	err error
}

// recordPage reads the page of records that follows the given key, adds it to all, and returns whether records may
// follow it. If it fails it returns the records that were read before.
func recordPage(
	ctx context.Context, r *read.Reader, after string, all *count,
) (page []rawStored, more bool, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		keys, size := boltfile.ScanAfter(objects, after), 0
		for k, data := keys.Next(); k != nil && !more; k, data = keys.Next() {
			one := copyStored(r, objects, k, data)
			page, size = append(page, one), size+one.Body.Size
			more = len(page) == read.PageObjects || size >= read.PageBytes
		}
		return cmp.Or(keys.Err, all.add(r, b, len(page), !more))
	})
	return page, more, err
}

func copyStored(r *read.Reader, objects *bolt.Bucket, k, data []byte) (one rawStored) {
	key := string(k)
	if len(k) > format.MaxKeyLen {
		one.err = fmt.Errorf("key %s in collection %s: %w", printable.Key(key), r.Name, entry.ErrDamaged)
	} else {
		one.Record, one.err = r.CopyRecord(objects, key, data, nil)
	}
	one.Key = key
	return one
}

// entryOf decompresses a copied record. No transaction should be open.
func entryOf(r *read.Reader, one rawStored) (entry.Entry, error) {
	b, err := one.Body, one.err
	if err == nil {
		b, err = r.Coder.Plain(one.Key, b, nil)
	}
	if err != nil {
		return entry.Entry{}, &RecordError{Key: one.Key, Err: err}
	}
	return entry.Entry{Key: one.Key, UID: one.UID, ResourceVersion: one.RV, Encoding: one.Encoding, Payload: b.Payload},
		nil
}
