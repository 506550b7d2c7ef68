package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// The functions in this file read and change the stored bytes, whose format package internal/storetest/disk has.

// tamperWith runs fn on the stored bucket of c in a write transaction that bypasses the collection.
func tamperWith(c *store.Collection, fn func(b *bolt.Bucket) error) error {
	return store.UpdateFile(context.Background(), store.StoreOf(c), func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, c.Identity().ID())
		if err != nil {
			return err
		}
		return fn(b)
	})
}

func viewOf(c *store.Collection, fn func(b *bolt.Bucket) error) error {
	return store.ViewFile(context.Background(), store.StoreOf(c), func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, c.Identity().ID())
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// flipRecord damages the record of key so that its checksum is wrong.
func flipRecord(c *store.Collection, key string) error {
	return tamperWith(c, func(b *bolt.Bucket) error { return disk.Flip(b.Bucket(disk.Objects), []byte(key)) })
}

// damageRecord damages the record of key and reads it, so that the store notices the damage.
func damageRecord(t *testing.T, c *store.Collection, key string) {
	t.Helper()
	if err := flipRecord(c, key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), key); !errors.Is(err, entry.ErrDamaged) {
		t.Fatalf("Get of a bad record: %v", err)
	}
}

// editInfo edits the stored Info of c as a map of its stored field names.
func editInfo(c *store.Collection, edit func(info map[string]any)) error {
	return tamperWith(c, func(b *bolt.Bucket) error { return disk.EditInfo(b, c.Identity().ID(), edit) })
}

func eachRecord(c *store.Collection, fn func(key string, r disk.Record) error) error {
	return viewOf(c, func(b *bolt.Bucket) error {
		return b.Bucket(disk.Objects).ForEach(func(k, data []byte) error {
			r, err := disk.ParseRecord(data)
			if err != nil {
				return err
			}
			return fn(string(k), r)
		})
	})
}

// compressedBy returns the number of records of c, and for each dictionary the number of records compressed with it.
func compressedBy(c *store.Collection) (total int, by map[uint64]int, err error) {
	by = map[uint64]int{}
	err = eachRecord(c, func(_ string, r disk.Record) error {
		if total++; r.Dictionary != 0 {
			by[r.Dictionary]++
		}
		return nil
	})
	return total, by, err
}

func dictionaries(c *store.Collection) (keys [][]byte, err error) {
	err = viewOf(c, func(b *bolt.Bucket) error {
		return disk.Each(b.Bucket(disk.Dictionaries), func(k, _ []byte) error {
			keys = append(keys, bytes.Clone(k))
			return nil
		})
	})
	return keys, err
}

// storedHeader returns the sequence number and the index values in the record of an object.
func storedHeader(c *store.Collection, key string) (seq uint64, terms map[string][]string, err error) {
	err = viewOf(c, func(b *bolt.Bucket) error {
		r, err := disk.ParseRecord(b.Bucket(disk.Objects).Get([]byte(key)))
		seq, terms = r.Seq, r.Terms
		return err
	})
	return seq, terms, err
}

func indexBuckets(c *store.Collection) (names []string, err error) {
	err = viewOf(c, func(b *bolt.Bucket) error {
		return b.Bucket(disk.Index).ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}

// tombstones returns the number of stored tombstones, or -1 if the file cannot be read.
func tombstones(c *store.Collection) (n int) {
	err := viewOf(c, func(b *bolt.Bucket) error {
		n = disk.Len(b.Bucket(disk.Tombstones))
		return nil
	})
	if err != nil {
		return -1
	}
	return n
}

// plainRecords counts the unsealed records of objects, tombstones and dictionaries in sealed collections.
func plainRecords(s *store.Store) (n int, err error) {
	err = store.ViewFile(context.Background(), s, func(tx *bolt.Tx) error {
		return disk.EachCollection(tx, func(_ string, b *bolt.Bucket) error {
			info, err := disk.GetInfo(b)
			if sealed, _ := info["sealed"].(bool); err != nil || !sealed {
				return err
			}
			for _, bucket := range [][]byte{disk.Objects, disk.Tombstones, disk.Dictionaries} {
				err := disk.Each(b.Bucket(bucket), func(_, v []byte) error {
					sealed, err := isSealedEntry(bucket, v)
					if !sealed {
						n++
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	return n, err
}

func isSealedEntry(bucket, v []byte) (bool, error) {
	if bytes.Equal(bucket, disk.Tombstones) {
		_, r, err := disk.ParseTombstone(v)
		return r.SealedBy != 0, err
	}
	return v[0] == disk.Sealed, nil
}

func dataKeys(s *store.Store) (ids []uint64, err error) {
	err = store.ViewFile(context.Background(), s, func(tx *bolt.Tx) error {
		ids, err = disk.DataKeys(tx)
		return err
	})
	return ids, err
}

func wantPages(t *testing.T, s *store.Store) {
	t.Helper()
	f, err := os.Open(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	err = store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
		pages, err := boltcheck.OpenTx(f, tx.Size(), uint64(tx.ID()))
		if err != nil {
			return err
		}
		problems, err := pages.Walk(t.Context(), boltcheck.WalkOptions{})
		if len(problems) > 0 {
			t.Errorf("pages: %q", problems)
		}
		return err
	})
	if err != nil {
		t.Errorf("pages: %v", err)
	}
}

// closedCleanly reports whether the last process closed the file cleanly. The file must be unlocked.
func closedCleanly(t *testing.T, path string) (clean bool) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	err = db.View(func(tx *bolt.Tx) error {
		clean = tx.Bucket(disk.Root).Get(disk.Clean) != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return clean
}

// mustCrash returns a copy of the file of s, as a crash would leave it now.
func mustCrash(t *testing.T, s *store.Store) (path string) {
	t.Helper()
	// The file does not grow during a read transaction.
	err := store.ViewFile(t.Context(), s, func(*bolt.Tx) error {
		data, err := os.ReadFile(s.Path())
		if err != nil {
			return err
		}
		path = t.TempDir() + "/store"
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}
