package storetest

import (
	"fmt"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/storetest/disk"
)

// Flip damages the records of these keys in the unlocked file at path. Every collection in the file must have all the
// keys.
func Flip(t testing.TB, path string, keys ...string) {
	t.Helper()
	tamper(t, path, keys, disk.Flip)
}

// Punch removes the records of these keys and corrects the stored number of objects, so that only leftover index
// entries show the loss.
func Punch(t testing.TB, path string, keys ...string) {
	t.Helper()
	tamper(t, path, keys, (*bbolt.Bucket).Delete)
}

func tamper(t testing.TB, path string, keys []string, change func(objects *bbolt.Bucket, key []byte) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = db.Update(func(tx *bbolt.Tx) error {
		return disk.EachCollection(tx, func(id string, b *bbolt.Bucket) error {
			objects := b.Bucket(disk.Objects)
			for _, key := range keys {
				if objects.Get([]byte(key)) == nil {
					return fmt.Errorf("%s is not in collection %s", key, id)
				}
				if err := change(objects, []byte(key)); err != nil {
					return err
				}
			}
			left := disk.Len(objects)
			return disk.EditInfo(b, id, func(info map[string]any) { info["objects"] = left })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
