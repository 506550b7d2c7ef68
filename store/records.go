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
	r := &reader{store: s, name: id.ID()}
	all := count{whole: after == ""}
	for {
		p := r.recordPage(ctx, after, &all)
		for _, record := range p.records {
			if err := ctx.Err(); err != nil {
				return err
			}
			if record.err != nil {
				return fmt.Errorf("read %s: %w", id, record.err)
			}
			if err := fn(record.Entry); err != nil {
				return err
			}
			after = record.Key
		}
		if p.err != nil {
			return fmt.Errorf("read %s: %w", id, p.err)
		}
		if !p.more {
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
func (c *count) add(r *reader, b *bolt.Bucket, records int, last bool) error {
	if c.records == 0 {
		c.commit = b.Tx().ID()
	}
	c.records += records
	if !last || !c.whole || c.commit != b.Tx().ID() {
		return nil
	}
	st, err := getState(b, r.name)
	if err != nil {
		return err
	}
	return r.counted(c.records, st.Objects)
}

// Record returns the record with that key, and whether it exists. It fails as Records does.
func (s *Store) Record(ctx context.Context, id entry.Identity, key string) (e entry.Entry, found bool, err error) {
	if id, err = id.Canonical(); err != nil {
		return e, false, err
	}
	r := &reader{store: s, name: id.ID()}
	var raw rawStored
	err = r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		if data := objects.Get([]byte(key)); data != nil {
			raw, found = r.copyStored(objects, []byte(key), data), true
		}
		return nil
	})
	if err != nil || !found {
		return e, false, err
	}
	one := r.openStored(raw)
	if one.err != nil {
		return e, false, fmt.Errorf("read %s: %w", id, one.err)
	}
	return one.Entry, true, nil
}

// storedRecord is a record. If err is not nil, only its Key is set.
type storedRecord struct {
	entry.Entry
	err error
}

// recordPage is a page of records in key order. If err is not nil, records has those that were read before it.
type recordPage struct {
	records []storedRecord
	more    bool // true if there may be further records
	err     error
}

// recordPage reads the page of records that follows the given key, and adds it to all.
func (r *reader) recordPage(ctx context.Context, key string, all *count) (p recordPage) {
	var raw []rawStored
	p.err = r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		keys, size := boltfile.ScanAfter(objects, key), 0
		k, data := keys.Next()
		for ; k != nil; k, data = keys.Next() {
			if len(raw) == iterateObjects || size >= iterateBytes {
				p.more = true
				break
			}
			one := r.copyStored(objects, k, data)
			raw, size = append(raw, one), size+one.record.body.size
		}
		return cmp.Or(keys.Err, all.add(r, b, len(raw), !p.more))
	})
	for _, one := range raw { // under no transaction
		p.records = append(p.records, r.openStored(one))
	}
	return p
}

// rawStored is a record that was copied out of its transaction. If err is not nil, only key is set.
type rawStored struct {
	key    string
	record rawRecord
	err    error
}

func (r *reader) copyStored(objects *bolt.Bucket, k, data []byte) rawStored {
	if len(k) > format.MaxKeyLen {
		return rawStored{key: string(k), err: fmt.Errorf("key %s in collection %s: %w", printable.Key(string(k)), r.name,
			entry.ErrDamaged)}
	}
	key := string(k)
	record, err := r.copyRecord(objects, key, data, nil)
	return rawStored{key: key, record: record, err: err}
}

// openStored decrypts and decompresses a copied record.
func (r *reader) openStored(one rawStored) storedRecord {
	err := one.err
	if err == nil {
		var b body
		b, err = r.plain(one.key, one.record.body, nil)
		one.record.body = b
	}
	if err != nil {
		return storedRecord{Entry: entry.Entry{Key: one.key}, err: &RecordError{Key: one.key, Err: err}}
	}
	h := one.record.Header
	return storedRecord{Entry: entry.Entry{Key: one.key, UID: h.UID, ResourceVersion: h.RV, Encoding: h.Encoding,
		Payload: one.record.body.payload}}
}
