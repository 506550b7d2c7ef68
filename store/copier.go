package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// copier copies all that the store's file holds to a fresh file: bucket by bucket, each in the order of its keys, so
// that its pages are filled one after the other. Records, tombstones, dictionaries and documents are verified on the
// way.
//
// It copies in one of three ways. As it is, which keeps what a newer program has added: Compact, and a file that was
// removed while it was open. With a key, which seals anew every collection that is to be sealed: Rekey. With salvage
// set, which leaves out and notes what is damaged: Rebuild. In the last two ways index entries are made of the headers
// of records, which say all that an index holds; those of the old file are not read. What is left of collections that
// were dropped is never copied.
//
// A page of entries is read in one transaction of the old file, and written in one of the fresh file, so neither is
// held for long. The pages are of one state all the same: the caller has the writer's place. Damage of the old file
// fails the store, an error of the fresh file does not.
type copier struct {
	s          *Store
	old, fresh *boltfile.Handle
	// key is the data key that everything is sealed with that is to be sealed; nil copies what is sealed as it is.
	key *seal.DataKey
	// keyRecord is the record of the data keys that the copy has; nil for none.
	keyRecord []byte
	// salvage makes the copier go on where something is damaged.
	salvage bool
	found
}

// newCopier returns a copier of the file that s has open.
func newCopier(s *Store, key *seal.DataKey, salvage bool) *copier {
	return &copier{s: s, key: key, salvage: salvage,
		found: found{unsafe: map[string]bool{}, lost: map[string]error{}, behind: map[string]bool{}}}
}

// copy makes the fresh file, complete and on the disk, but not under the store's name. If it fails nothing is left.
func (c *copier) copy(ctx context.Context) error {
	size := int64(0)
	if info, err := c.old.File.Stat(); err == nil {
		size = info.Size()
	}
	var err error
	if c.fresh, err = boltfile.New(c.s.real, c.s.creating(boltfile.MapSize(size))); err != nil {
		return err
	}
	err = boltfile.KeepOwner(c.old.File, c.fresh.File)
	if err == nil || c.salvage { // to go on with another owner is better than not to go on
		err = c.root(ctx)
	}
	if err == nil && c.salvage {
		err = c.revive()
	}
	if err != nil {
		return boltfile.ClassifySpace(errors.Join(err, c.fresh.Discard()))
	}
	return nil
}

// root copies everything.
func (c *copier) root(ctx context.Context) error {
	// New files are clean. If this process dies with this one in place, the next one shall verify it.
	err := c.write(func(tx *bolt.Tx) error { return putClean(tx, false) })
	if err == nil && c.salvage {
		err = c.findUnsafe(ctx)
	}
	if err != nil || c.unsafe[""] {
		return err
	}
	names, err := c.values(ctx, bucketPath{}, nil)
	for _, name := range names {
		if err != nil {
			return err
		}
		switch path := (bucketPath{name}); {
		case string(name) == string(format.BucketLarder):
			err = c.larder(ctx, path)
		case string(name) == string(format.BucketDropped): // is being removed
		case c.unsafe[string(name)]:
		case string(name) == string(format.BucketDocuments): // one that is lost is no loss: whoever keeps it gets it anew
			_, _, err = c.each(ctx, path, c.document)
		case !c.salvage:
			err = c.bucket(ctx, path)
		}
	}
	return err
}

// larder copies the root bucket of the store, with every collection. A file that is salvaged gets an id of its own: who
// has read changes of the old one cannot go on in it.
func (c *copier) larder(ctx context.Context, path bucketPath) error {
	var stored []byte
	collections, err := c.values(ctx, path, func(e pair) bool {
		switch string(e.key) {
		case string(format.KeyClean): // not before it is closed
			return false
		case string(format.KeyKeys):
			stored = e.value
			return false
		}
		return !c.salvage
	})
	if err == nil {
		c.keyRecord, err = c.keys(stored)
	}
	if err == nil && c.keyRecord != nil {
		err = c.write(func(tx *bolt.Tx) error { return put(tx, path, pair{format.KeyKeys, c.keyRecord}) })
	}
	for _, name := range collections {
		if err != nil {
			return err
		}
		err = c.collection(ctx, string(name))
	}
	return err
}

// keys returns the record of the data keys that the copy has: the key that it is sealed with, or what the old file has,
// or, of a file that is damaged, what this process has unwrapped.
func (c *copier) keys(stored []byte) ([]byte, error) {
	switch {
	case c.key != nil:
		return keysOf([]*seal.DataKey{c.key})
	case c.salvage && c.s.keys != nil:
		return c.s.keys.held().record, nil
	case c.salvage:
		if _, err := parseKeysRecord(stored); isDamaged(err) { // that of a newer program is not
			c.keysLost = true
			return nil, nil
		}
	}
	return stored, nil
}

// document verifies and copies a document.
func (c *copier) document(tx *bolt.Tx, e pair) error {
	if _, err := parseDocument(string(e.key), e.value); err != nil {
		return err
	}
	return put(tx, bucketPath{format.BucketDocuments}, e)
}

// bucket copies a bucket and those in it as they are.
func (c *copier) bucket(ctx context.Context, path bucketPath) error {
	nested, err := c.values(ctx, path, func(pair) bool { return true })
	for _, name := range nested {
		if err != nil {
			return err
		}
		err = c.bucket(ctx, path.to(name))
	}
	return err
}

// values makes a bucket, copies those of its entries that keep wants and that are no buckets, and returns the names of
// the buckets in it. A nil keep wants none.
func (c *copier) values(
	ctx context.Context, path bucketPath, keep func(pair) bool,
) (nested [][]byte, err error) {
	_, err = c.pages(ctx, path, func(entries []pair) error {
		kept := entries[:0]
		for _, e := range entries {
			if e.value == nil {
				nested = append(nested, e.key)
			} else if keep != nil && keep(e) {
				kept = append(kept, e)
			}
		}
		return c.write(func(tx *bolt.Tx) error { return put(tx, path, kept...) })
	})
	return nested, err
}

// each has rewrite write what the copy has of each entry of a bucket. It returns how many it has written, and whether
// those are all: a copier that salvages leaves out what is damaged.
func (c *copier) each(
	ctx context.Context, path bucketPath, rewrite func(tx *bolt.Tx, e pair) error,
) (copied int, whole bool, err error) {
	bad := 0
	whole, err = c.pages(ctx, path, func(entries []pair) error {
		return c.write(func(tx *bolt.Tx) error {
			if err := put(tx, path); err != nil {
				return err
			}
			for _, e := range entries {
				switch err := rewrite(tx, e); {
				case err == nil:
					copied++
				case c.salvage && isDamaged(err):
					bad++
				default:
					return c.s.settle(c.old, err)
				}
			}
			return nil
		})
	})
	return copied, whole && bad == 0, err
}

// write runs fn in a transaction of the fresh file.
func (c *copier) write(fn func(tx *bolt.Tx) error) error {
	return c.fresh.Update(fn, (*bolt.Tx).Commit)
}

// put makes a bucket, and writes entries that come after those that it has.
func put(tx *bolt.Tx, path bucketPath, entries ...pair) error {
	b, err := path.make(tx)
	if err != nil || len(entries) == 0 {
		return err
	}
	b.FillPercent = coldFill
	for _, e := range entries {
		if err := b.Put(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}
