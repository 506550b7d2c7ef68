package store

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// copyBytes is about how much is read in one transaction, and written in one.
const copyBytes = 4 << 20

// pair is a key of a bucket with its value, which is nil for a bucket.
type pair struct{ key, value []byte }

// bucketPath are the names of a bucket and of those that it is in, the outermost first. The empty path is the root.
type bucketPath [][]byte

// to returns the path of a bucket in that of p.
func (p bucketPath) to(name []byte) bucketPath { return append(p[:len(p):len(p)], name) }

// make returns the bucket, which it makes if there is none.
func (p bucketPath) make(tx *bolt.Tx) (b *bolt.Bucket, err error) {
	b = tx.Cursor().Bucket()
	for _, name := range p {
		if b, err = b.CreateBucketIfNotExists(name); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// pages calls each with the entries of a bucket of the old file, some at a time, in the order of keys; once with none
// if the bucket is empty. A copier that salvages goes as far as they can be read: forwards until there is a fault, and
// then backwards from the end. whole reports whether there was no fault.
func (c *copier) pages(ctx context.Context, path bucketPath, each func([]pair) error) (whole bool, err error) {
	r := &bucketReader{path: path}
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		r.page = nil
		err := c.old.View(r.read)
		fault := c.salvage && isDamaged(err)
		if err != nil && !fault {
			return false, c.s.settle(c.old, err)
		}
		end := len(r.page) == 0
		if first || !end {
			if err := each(r.page); err != nil { // what was read before a fault too
				return false, err
			}
		}
		switch {
		case fault && !r.backwards:
			r.backwards = true
		case fault || end:
			return !r.backwards, nil
		}
	}
}

// bucketReader reads the entries of a bucket, with an order that it does not trust.
type bucketReader struct {
	path      bucketPath
	backwards bool
	// after is the key that was read last forwards, and before backwards; nil for none.
	after, before []byte
	// page is what was read in one transaction, in memory of its own.
	page []pair
}

// read reads the next page. If it fails, or panics, the page has what was read until then.
func (r *bucketReader) read(tx *bolt.Tx) error {
	b := tx.Cursor().Bucket()
	for _, name := range r.path {
		if b = b.Bucket(name); b == nil {
			return &boltfile.FaultError{What: "a bucket is missing"}
		}
	}
	cur := b.Cursor()
	next := cur.Next
	if r.backwards {
		next = cur.Prev
	}
	size := 0
	for k, v := r.first(cur); k != nil && size < copyBytes; k, v = next() {
		if r.backwards && bytes.Compare(k, r.after) <= 0 {
			return nil // that has been read forwards
		}
		if !r.isNext(k) {
			return &boltfile.FaultError{What: "the keys are out of order"}
		}
		e := pair{key: bytes.Clone(k), value: bytes.Clone(v)}
		r.page = append(r.page, e)
		if r.backwards {
			r.before = e.key
		} else {
			r.after = e.key
		}
		size += len(k) + len(v)
	}
	return nil
}

// first goes to the first entry that has not been read.
func (r *bucketReader) first(cur *bolt.Cursor) (k, v []byte) {
	switch {
	case !r.backwards:
		return seekAfter(cur, string(r.after))
	case r.before == nil:
		return cur.Last()
	}
	cur.Seek(r.before)
	return cur.Prev()
}

// isNext reports whether a key comes, in the direction of the reader, after the one that was read last.
func (r *bucketReader) isNext(key []byte) bool {
	if r.backwards {
		return r.before == nil || bytes.Compare(key, r.before) < 0
	}
	return bytes.Compare(key, r.after) > 0
}
