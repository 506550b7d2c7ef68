package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestUpgrade runs a step that does not exist yet.
func TestUpgrade(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	steps := map[uint64]func(*bolt.Tx) error{0: func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLarder).Put([]byte("step"), []byte("done"))
	}}
	if err := checkFormat(0, false, steps); err != nil {
		t.Error(err)
	}
	if err := checkFormat(0, true, steps); err == nil {
		t.Error("a file that is read only can not be upgraded")
	}
	err = s.update(context.Background(), func(tx *bolt.Tx) error { return upgrade(tx, 0, steps) })
	if err != nil {
		t.Fatal(err)
	}
	err = s.view(context.Background(), func(tx *bolt.Tx) error {
		rt, err := readRoot(tx)
		if err != nil || rt.format != formatVersion || tx.Bucket(bucketLarder).Get([]byte("step")) == nil {
			return fmt.Errorf("root %+v, %w", rt, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
