package store

import (
	"bytes"
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// pair is a key of a bucket with its value, which is nil for a bucket.
type pair struct{ key, value []byte }

// salvageBytes is about how much is read in one transaction, and written in one.
const salvageBytes = 4 << 20

// salvage calls each with the entries of a bucket of the old file, some at a
// time, as far as they can be read: forwards until there is a fault, and then
// backwards from the end. whole tells whether there was no fault.
func (c *copying) salvage(ctx context.Context, bucket []string, each func([]pair) error) (whole bool, err error) {
	var last []byte
	for fault := false; !fault; {
		var entries []pair
		entries, fault, err = c.read(ctx, bucket, last, nil)
		if err != nil {
			return false, err
		}
		if len(entries) == 0 {
			if !fault {
				return true, nil
			}
			break
		}
		last = entries[len(entries)-1].key
		if err := each(entries); err != nil {
			return false, err
		}
	}
	end := []byte{} // not nil: backwards
	for fault := false; !fault; {
		var entries []pair
		entries, fault, err = c.read(ctx, bucket, last, end)
		if err != nil || len(entries) == 0 {
			return false, err
		}
		end = entries[len(entries)-1].key
		if err := each(entries); err != nil {
			return false, err
		}
	}
	return false, nil
}

// read reads entries after one key, or, if before is not nil, those before it
// (empty is the end) and after the other, backwards. It copies them. fault: there may be
// more that cannot be read this way.
func (c *copying) read(
	ctx context.Context, bucket []string, after, before []byte,
) (entries []pair, fault bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	err = c.old.view(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucket[0]))
		for _, name := range bucket[1:] {
			if b != nil {
				b = b.Bucket([]byte(name))
			}
		}
		if b == nil {
			return &faultError{what: "a bucket is missing"}
		}
		r := &salvageReader{cur: b.Cursor(), backwards: before != nil, after: after}
		r.from = after
		if r.backwards {
			r.from = before
		}
		defer func() { entries = r.entries }() // those that were read before a fault too
		return r.read()
	})
	if errors.Is(err, entry.ErrDamaged) {
		return entries, true, nil
	}
	return entries, false, err
}

// salvageReader reads some entries with a cursor, in an order that it does not trust.
type salvageReader struct {
	cur       *bolt.Cursor
	backwards bool
	// from is the key to go on from, nil or empty for none; after bounds the way back.
	from, after []byte
	entries     []pair
}

func (r *salvageReader) read() error {
	bytesRead := 0
	for k, v := r.first(); k != nil && bytesRead < salvageBytes; k, v = r.next() {
		if r.backwards && r.after != nil && bytes.Compare(k, r.after) <= 0 {
			return nil
		}
		c := bytes.Compare(k, r.from)
		if r.backwards {
			c = -c
		}
		if len(r.from) > 0 && c <= 0 {
			return &faultError{what: "the keys are out of order"}
		}
		e := pair{key: bytes.Clone(k), value: bytes.Clone(v)}
		r.entries = append(r.entries, e)
		r.from = e.key
		bytesRead += len(k) + len(v)
	}
	return nil
}

// first goes to the first entry beyond from.
func (r *salvageReader) first() (k, v []byte) {
	switch {
	case len(r.from) == 0 && r.backwards:
		return r.cur.Last()
	case len(r.from) == 0:
		return r.cur.First()
	}
	k, v = r.cur.Seek(r.from)
	if r.backwards || bytes.Equal(k, r.from) {
		return r.next()
	}
	return k, v
}

func (r *salvageReader) next() (k, v []byte) {
	if r.backwards {
		return r.cur.Prev()
	}
	return r.cur.Next()
}
