package store

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Open opens or creates the file.
func Open(path string, o Options) (*Store, error) {
	s := &Store{path: path, o: o, writer: make(chan struct{}, 1)}
	h := &handle{path: path}
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		ReadOnly:     o.ReadOnly,
		Timeout:      max(o.lockTimeout(), 1),
		FreelistType: bolt.FreelistMapType,
		MaxSize:      int(o.MaxSize),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			h.file = f
			return f, err
		},
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	h.db = db
	s.handle = h
	if !o.ReadOnly {
		err := db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucketLarder)
			return err
		})
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	return s, nil
}
