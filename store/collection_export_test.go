package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"
)

// SetLimits makes relists of c leave memory after staging bytes, and commit
// about as many bytes a transaction.
func SetLimits(c *Collection, staging, commit int) {
	c.limits.staging, c.limits.commit = staging, commit
}

// CommitLimit returns about how many bytes a transaction of a relist of c commits.
func CommitLimit(c *Collection) int { return c.limits.commit }

// SetSampling makes c compress with dictionaries of so many bytes, as soon as there are sample bytes to make one of.
func SetSampling(c *Collection, dictionary, sample int) {
	c.packer.dictBytes, c.packer.sampleBytes = dictionary, sample
}

// Packed returns how many records of c there are, and how many of them are compressed with each dictionary.
func Packed(c *Collection) (total int, by map[uint64]int, err error) {
	by = map[uint64]int{}
	err = c.viewObjects(context.Background(), func(objects *bolt.Bucket, _ *captured) error {
		return objects.ForEach(func(k, data []byte) error {
			h, err := parseHeader(c.name, string(k), data)
			if total++; h.Dictionary != 0 {
				by[h.Dictionary]++
			}
			return err
		})
	})
	return total, by, err
}

// Dictionaries returns the keys of the dictionaries in the file.
func Dictionaries(c *Collection) (keys [][]byte, err error) {
	err = c.view(context.Background(), func(b *bolt.Bucket) error {
		dicts := b.Bucket(bucketDictionaries)
		if dicts == nil {
			return nil
		}
		return dicts.ForEach(func(k, _ []byte) error {
			keys = append(keys, append([]byte(nil), k...))
			return nil
		})
	})
	return keys, err
}

// WaitBuilds returns once no index of c is being built.
func WaitBuilds(c *Collection) { c.builds.running.Wait() }

// HoldBuild keeps the index from being built until build is called.
func HoldBuild(c *Collection, index string) (build func()) {
	c.builds.mu.Lock()
	defer c.builds.mu.Unlock()
	c.builds.names = map[string]struct{}{index: {}}
	return func() {
		c.builds.forget([]string{index})
		c.startBuild()
	}
}

// ForgetPending is what closing c does when what is pending can not be committed.
func ForgetPending(c *Collection) { c.store.dropPending(c) }

// IndexReady reports whether look-ups in the index need not scan.
func IndexReady(c *Collection, index string) bool { return c.set.Load().ready[index] }

// CheckContent is the part of Store.Check that looks at the contents.
func CheckContent(ctx context.Context, s *Store) (r Report, err error) {
	err = s.checkContent(ctx, &r, nil)
	return r, err
}

// NoSync leaves out the fsyncs, for tests that commit often and never crash.
func NoSync(s *Store) {
	s.mu.Lock()
	db := s.handle.db
	s.mu.Unlock()
	tx, err := db.Begin(true) // whoever commits reads it
	if err != nil {
		panic(err)
	}
	db.NoSync = true
	_ = tx.Rollback()
}

// FailCommits makes the commits of s return what fail does, if not nil.
func FailCommits(s *Store, fail func() error) {
	s.hooks.commit = func(tx *bolt.Tx) error {
		if err := fail(); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	}
}

// FailAfterCommits is FailCommits for commits that fail once they have been made.
func FailAfterCommits(s *Store, fail func() error) {
	s.hooks.commit = func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), fail()) }
}

// Tamper runs fn on the bucket of c in a write transaction, behind c's back.
func Tamper(c *Collection, fn func(b *bolt.Bucket) error) error {
	return c.store.update(context.Background(), func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, c.name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// TamperFile runs fn in a write transaction of the file.
func TamperFile(s *Store, fn func(tx *bolt.Tx) error) error {
	return s.update(context.Background(), fn)
}

// Header returns the seq and the index terms of the record under key.
func Header(c *Collection, key string) (seq uint64, terms map[string][]string, err error) {
	err = c.viewObjects(context.Background(), func(objects *bolt.Bucket, _ *captured) error {
		s, err := c.stored(objects, key)
		seq, terms = s.Seq, s.Terms
		return err
	})
	return seq, terms, err
}

// Staged reports whether c's bucket holds a relist that did not fit in memory.
func Staged(c *Collection) (staged bool, err error) {
	err = c.view(context.Background(), func(b *bolt.Bucket) error {
		staged = b.Bucket(bucketStaging) != nil
		return nil
	})
	return staged, err
}

// IndexBuckets returns the names of the index buckets in the file.
func IndexBuckets(c *Collection) (names []string, err error) {
	err = c.view(context.Background(), func(b *bolt.Bucket) error {
		return b.Bucket(bucketIndex).ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}

// SetTombstoneLimit makes c keep so many tombstones that a handler has not passed.
func SetTombstoneLimit(c *Collection, n int) { c.limits.tombstones = n }

// Tombstones returns how many there are in the file.
func Tombstones(c *Collection) (n int) {
	err := c.view(context.Background(), func(b *bolt.Bucket) error {
		if tombstones := b.Bucket(bucketTombstones); tombstones != nil {
			for range ascending(tombstones) {
				n++
			}
		}
		return nil
	})
	if err != nil {
		return -1
	}
	return n
}

// NoSyncImport is NoSync for the store that is being made.
func NoSyncImport(i *Import) { NoSync(i.store) }
