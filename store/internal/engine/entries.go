package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// Entry returns the committed record with this key, and whether it exists.
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
		if errors.Is(err, entry.ErrDamaged) {
			r.File.Report(err)
		}
		return entry.Entry{}, &entry.RecordError{Key: one.Key, Err: err}
	}
	return entry.Entry{Key: one.Key, UID: one.UID, ResourceVersion: one.RV, Encoding: one.Encoding, Payload: b.Payload},
		nil
}

// CountKeys returns the number of the collection's keys that begin with prefix, in one snapshot.
func (r *Reader) CountKeys(ctx context.Context, prefix string) (n int, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		n = 0
		s := scanMergedFrom(objects, over, prefix)
		for key, _, _, ok := s.Next(); ok && strings.HasPrefix(key, prefix); key, _, _, ok = s.Next() {
			n++
		}
		return s.Err()
	})
	return n, err
}

// EntryPage is a run of entries in key order, with the Info of the same snapshot.
type EntryPage struct {
	Entries []entry.Entry
	More    bool   // More is true if entries may follow the page.
	Last    string // Last is the last key read.
	Info    entry.Info
}

// arena is reused memory for the payloads of consecutive pages.
type arena struct {
	memory *[]byte // memory is the reused memory, which the caller owns.
	used   []byte  // used is the part of memory that the current page uses.
	lacks  int     // lacks is the number of bytes of the page that did not fit into memory.
}

func (a *arena) clone(data []byte) []byte {
	from := len(a.used)
	if from+len(data) > cap(a.used) {
		a.lacks += len(data)
		return slices.Clone(data)
	}
	a.used = append(a.used, data...)
	return a.used[from:len(a.used):len(a.used)]
}

func (a *arena) grow() {
	if a.lacks > 0 {
		*a.memory = make([]byte, 0, (len(a.used)+a.lacks)*5/4)
	}
}

// PageQuery selects the entries of a page by prefix, position and limits; see store.PageOptions.
type PageQuery struct {
	After, Prefix string
	Limit, Bytes  int
	Memory        *[]byte
}

// PageOfEntries reads a page of entries from one snapshot: keys after q.After that begin with q.Prefix, at most q.Limit
// and PageObjects of them. It calls the function also at the moment of the snapshot, while writes are blocked. If
// q.Memory is not nil, it holds the payloads, and grows as needed. At an unreadable entry, PageOfEntries returns the
// entries before it and an entry.RecordError.
func (r *Reader) PageOfEntries(ctx context.Context, q PageQuery, also func()) (p EntryPage, err error) {
	after, prefix, limit, most, memory := q.After, q.Prefix, q.Limit, q.Bytes, q.Memory
	clone := slices.Clone[[]byte]
	var payloads arena
	if memory != nil {
		payloads.memory, clone = memory, payloads.clone
		defer payloads.grow()
	}
	if limit <= 0 || limit > PageObjects {
		limit = PageObjects
	}
	if most <= 0 || most > PageBytes {
		most = PageBytes
	}
	var all []rawStored
	capture := func() *Captured { return r.Memtable.Capture(nil, also) }
	err = r.viewCaptured(ctx, capture, func(b *bolt.Bucket, over *Captured) error {
		all, p = nil, EntryPage{Last: after}
		if memory != nil {
			payloads.used, payloads.lacks = (*memory)[:0], 0
		}
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		if p.Info = st.Info; over.Dirty {
			st.Follow(over.Info.Clone())
			p.Info, p.Info.Objects = st.Info, over.Info.Objects
		}
		size := 0
		var s *MergedScan
		if after < prefix {
			s = scanMergedFrom(objects, over, prefix)
		} else {
			s = ScanMerged(objects, over, after)
		}
		for key, data, x, ok := s.Next(); ok && strings.HasPrefix(key, prefix); key, data, x, ok = s.Next() {
			if len(all) == limit || size >= most {
				p.More = true
				return nil
			}
			one := rawStored{}
			if x != nil {
				one.written = x.Entry(r.Codec.Name())
			} else {
				one = r.copyStored(objects, []byte(key), data, clone)
			}
			one.Key = key
			all, p.Last = append(all, one), key
			size += one.size()
		}
		return s.Err()
	})
	return p, r.openPage(&p, all, err)
}

// openPage decompresses the copied records, up to the first unreadable one, and sets them as the entries of the page.
func (r *Reader) openPage(p *EntryPage, all []rawStored, err error) error {
	entries, errs, cost := make([]entry.Entry, len(all)), make([]error, len(all)), 0
	for _, one := range all {
		cost += one.size() / 4
	}
	base.Parallel(len(all), cost, func(i int) { entries[i], errs[i] = r.entryOf(all[i]) })
	for i := range errs {
		if errs[i] != nil {
			p.Entries, p.Last = entries[:i], all[i].Key
			return errs[i]
		}
	}
	p.Entries = entries
	return err
}
