package store

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"
)

// PlainRecords returns how many records of objects, tombstones, dictionaries and staged lists of sealed collections are not sealed.
func PlainRecords(s *Store) (n int, err error) {
	err = s.view(context.Background(), func(tx *bolt.Tx) error {
		root := tx.Bucket(bucketLarder)
		return root.ForEachBucket(func(name []byte) error {
			if st, err := getState(root.Bucket(name), string(name)); err != nil || !st.Sealed {
				return err
			}
			for _, bucket := range [][]byte{bucketObjects, bucketTombstones, bucketDictionaries, bucketStaging} {
				b := root.Bucket(name).Bucket(bucket)
				if b == nil {
					continue
				}
				for k, v := range ascending(b) {
					if !isSealedEntry(bucket, string(name), k, v) {
						n++
					}
				}
			}
			return nil
		})
	})
	return n, err
}

func isSealedEntry(bucket []byte, collection string, k, v []byte) bool {
	switch {
	case bytes.Equal(bucket, bucketTombstones):
		seq, _ := parseSeqKey(k)
		t, err := parseTombstone(collection, seq, v)
		return err == nil && t.SealedBy != 0
	case bytes.Equal(bucket, bucketStaging):
		v = v[stagedFixed:]
	}
	return v[0] == sealedVersion
}

// DataKeys returns the ids of the data keys that a file has.
func DataKeys(s *Store) (ids []uint64, err error) {
	err = s.view(context.Background(), func(tx *bolt.Tx) error {
		stored, err := getKeys(tx)
		for _, k := range stored {
			ids = append(ids, k.ID)
		}
		return err
	})
	return ids, err
}
