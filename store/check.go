package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/seal"
)

const (
	// checkPage is the maximum number of records or index entries verified in one transaction, which stepBytes bounds too.
	checkPage = 1000
	// maxProblems is the maximum number of problems that a Report lists; if there are more, one more line says so.
	maxProblems = 1000
)

// checkContent verifies the record of the data keys, the documents, and the collections: the checksum and the shape of
// every record, index entries against record headers both ways, counts, and the resourceVersion of a complete
// collection. It adds the problems that it finds to r. It returns an error only if something cannot be read.
//
// It reads in pages, each in a transaction of its own: bbolt can reuse free pages while a large file is checked. Each
// page is consistent in itself. While keys are counted, writers correct the count; see tally.
func (s *Store) checkContent(ctx context.Context, r *Report, p *pace) error {
	var names []string
	err := s.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil {
			return nil
		}
		return root.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	if err != nil {
		return err
	}
	if err := s.checkDataKeys(ctx, r, p); err != nil {
		return err
	}
	if err := s.checkDocuments(ctx, r, p); err != nil {
		return err
	}
	for _, name := range names {
		r.Collections++
		c := &checker{reader: reader{store: s, name: name}, report: r, pace: p, lacks: map[uint64]bool{}}
		err := c.check(ctx)
		switch {
		case errors.Is(err, ErrNoCollection): // it was dropped meanwhile
			r.Collections--
		case errors.Is(err, entry.ErrDamaged):
			c.problem("%v", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// viewChecked runs fn in a read transaction. If fn adds a problem to r in a Scrub, that is if p is not nil, viewChecked
// stops writes to the file that fn has read; a file that has replaced it meanwhile is not affected.
func (s *Store) viewChecked(ctx context.Context, r *Report, p *pace, fn func(tx *bolt.Tx) error) error {
	return s.viewHandle(ctx, func(h *boltfile.Handle, tx *bolt.Tx) error {
		before := len(r.Problems)
		err := fn(tx)
		if p != nil && len(r.Problems) > before {
			s.fail(h, s.problemError(r.Problems[before]))
		}
		return err
	})
}

// checker verifies one collection.
type checker struct {
	reader
	report *Report
	lacks  map[uint64]bool // ids of the dictionaries that have been reported as damaged or missing
	// pace limits the rate of reading; nil if there is no limit.
	pace *pace
	// read is how many bytes have been read since the last call of rest.
	read int
}

func (c *checker) problem(format string, args ...any) {
	switch n := len(c.report.Problems); {
	case n < maxProblems:
		c.report.Problems = append(c.report.Problems, fmt.Sprintf("collection %s: ", c.name)+fmt.Sprintf(format, args...))
	case n == maxProblems:
		c.report.Problems = append(c.report.Problems, "… and more")
	}
}

// view calls fn with the collection's bucket in a read transaction.
func (c *checker) view(ctx context.Context, fn func(b *bolt.Bucket) error) error {
	return c.store.viewChecked(ctx, c.report, c.pace, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, c.name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

func (c *checker) check(ctx context.Context) error {
	var indexes []string
	err := c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		if err != nil {
			return err
		}
		indexes = slices.Sorted(maps.Keys(st.indexes))
		c.checkState(st)
		c.report.LeftOut += len(st.LeftOut)
		c.report.LeftOutMore = c.report.LeftOutMore || st.LeftOutMore
		if err := c.checkDictionaries(b); err != nil {
			return err
		}
		return c.checkReferences(b, st)
	})
	if err == nil {
		err = c.countObjects(ctx)
	}
	if err == nil {
		err = c.pages(ctx, c.recordPage)
	}
	if err == nil {
		err = c.checkFeed(ctx)
	}
	for _, index := range indexes {
		if err == nil {
			err = c.pages(ctx, func(b *bolt.Bucket, after []byte) ([]byte, error) { return c.indexPage(b, index, after) })
		}
	}
	return err
}

// pages calls page, each time in a new transaction, until page returns nil. page returns the last key it has verified,
// which is passed to the next call as after.
func (c *checker) pages(ctx context.Context, page func(b *bolt.Bucket, after []byte) ([]byte, error)) error {
	for after := []byte{}; after != nil; {
		err := c.view(ctx, func(b *bolt.Bucket) (err error) {
			after, err = page(b, after)
			return err
		})
		if err == nil {
			err = c.rest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rest waits as long as the pace requires after what was read since the last call.
func (c *checker) rest(ctx context.Context) error {
	read := c.read
	if c.read = 0; c.pace == nil {
		return nil
	}
	return c.pace.wait(ctx, read)
}

// fills adds bytes, what was read to verify the n-th entry of a page, to read. It reports whether the page ends with
// that entry.
func (c *checker) fills(n, bytes int) bool {
	c.read += bytes
	return n == checkPage || c.read >= stepBytes
}

func (c *checker) checkState(st state) {
	if id := st.Identity.ID(); id != c.name {
		c.problem("it holds the identity of collection %s", id)
	}
	if st.Complete && st.ResourceVersion == "" && st.MustRelist == "" {
		c.problem("it is complete, but has no resourceVersion")
	}
	if st.ResourceVersion != "" && !entry.ComparableRV(st.ResourceVersion) {
		c.problem("its resourceVersion %q cannot be compared with others", st.ResourceVersion)
	}
}

// checkReferences verifies that the objects and index buckets that the info record names exist.
func (c *checker) checkReferences(b *bolt.Bucket, st state) error {
	objects, err := c.objects(b)
	if err != nil {
		return err
	}
	for _, ref := range st.Newest {
		have, err := c.stored(objects, ref.Key)
		if err == nil && (!have.found || have.UID != ref.UID || have.RV != ref.ResourceVersion) {
			c.problem("the newest objects name %q at resourceVersion %s, which is not what is stored", ref.Key,
				ref.ResourceVersion)
		}
	}
	return c.checkIndexBuckets(b, st)
}

func (c *checker) checkIndexBuckets(b *bolt.Bucket, st state) error {
	root := b.Bucket(format.BucketIndex)
	if root == nil {
		return fmt.Errorf("collection %s has no index bucket: %w", c.name, entry.ErrDamaged)
	}
	for name := range st.indexes {
		if root.Bucket([]byte(name)) == nil {
			c.problem("index %q has no bucket", name)
		}
	}
	return root.ForEachBucket(func(name []byte) error {
		if _, known := st.indexes[string(name)]; !known {
			c.problem("there is a bucket of index %q, which the info record does not know", name)
		}
		return nil
	})
}

// recordPage verifies a page of records, and that their terms are in the indexes.
func (c *checker) recordPage(b *bolt.Bucket, after []byte) (end []byte, err error) {
	st, err := getState(b, c.name)
	if err != nil {
		return nil, err
	}
	objects, err := c.objects(b)
	if err != nil {
		return nil, err
	}
	cur := objects.Cursor()
	n := 0
	for k, data := seekAfter(cur, string(after)); k != nil; k, data = cur.Next() {
		c.report.Objects++
		c.checkRecord(b, st, string(k), data)
		if n++; c.fills(n, len(k)+len(data)) {
			return bytes.Clone(k), nil
		}
	}
	return nil, nil
}

// checkDictionaries verifies every stored dictionary.
func (c *checker) checkDictionaries(b *bolt.Bucket) error {
	dicts := b.Bucket(format.BucketDictionaries)
	if dicts == nil {
		return nil
	}
	return dicts.ForEach(func(k, _ []byte) error {
		if id, ok := format.ParseDictionaryKey(k); ok {
			c.checkDictionary(b, id)
		} else {
			c.problem("a dictionary has the key %s", printable.Key(string(k)))
		}
		return nil
	})
}

// checkDictionary reports a dictionary that is damaged or missing, once.
func (c *checker) checkDictionary(b *bolt.Bucket, id uint64) {
	if c.lacks[id] {
		return
	}
	if _, err := c.dictionary(b.Tx(), id); err != nil && !errors.Is(err, seal.ErrSealed) {
		c.problem("%v; the objects that are compressed with it cannot be read", err)
		c.lacks[id] = true
	}
}

func (c *checker) checkRecord(b *bolt.Bucket, st state, key string, data []byte) {
	h, payload, err := format.ParseRecord(c.name, key, data)
	if err == nil {
		if h.SealedBy != 0 && !c.opens() {
			c.report.Sealed++
		}
		err = c.verifySealed(format.BucketObjects, key, h, payload)
	}
	if err != nil {
		c.problem("%v", err)
		return
	}
	if h.Seq == 0 || h.Seq >= st.NextSeq {
		c.problem("record %s has sequence number %d, and the next is %d", printable.Key(key), h.Seq, st.NextSeq)
	}
	if h.Dictionary != 0 {
		c.checkDictionary(b, h.Dictionary)
	}
	c.checkFiled(b, st, key, h)
	for name, values := range h.Terms {
		entries := b.Bucket(format.BucketIndex).Bucket([]byte(name))
		if entries == nil || !st.indexes[name].Ready {
			continue
		}
		for _, value := range values {
			if !index.Has(entries, value, key) {
				c.problem("record %s is not in index %q, which it is filed in", printable.Key(key), name)
			}
		}
	}
}

// indexPage verifies a page of index entries against the record headers.
func (c *checker) indexPage(b *bolt.Bucket, name string, after []byte) (end []byte, err error) {
	objects, err := c.objects(b)
	if err != nil {
		return nil, err
	}
	index := b.Bucket(format.BucketIndex).Bucket([]byte(name))
	if index == nil {
		return nil, nil
	}
	cur := index.Cursor()
	n := 0
	for k, v := seekAfter(cur, string(after)); k != nil; k, v = cur.Next() {
		c.report.IndexEntries++
		looked := c.checkEntry(objects, name, k, v)
		if n++; c.fills(n, len(k)+len(v)+looked) {
			return bytes.Clone(k), nil
		}
	}
	return nil, nil
}

// checkEntry verifies an index entry, and returns the size of the record's payload, which it has read.
func (c *checker) checkEntry(objects *bolt.Bucket, name string, k, v []byte) int {
	value, key, err := format.ParseIndexEntry(k, v)
	if err != nil {
		c.problem("index %q: %v", name, err)
		return 0
	}
	have, err := c.stored(objects, key)
	switch {
	case err != nil: // recordPage reports it
	case !have.found:
		c.problem("index %q files %s, which is not there", name, printable.Key(key))
	case !slices.Contains(have.Terms[name], value):
		c.problem("index %q files %s under a value that its record does not have", name, printable.Key(key))
	}
	return len(have.payload)
}
