package store_test

import (
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestOpenDamagedCollection checks that damage that keeps a collection from being opened is repaired by the next Open.
// Otherwise the program would fail at every start. Found by a soak of TestDamagedFile in test/e2e.
func TestOpenDamagedCollection(t *testing.T) {
	for name, damage := range map[string]func(b *bolt.Bucket) error{
		"no info":           func(b *bolt.Bucket) error { return b.Delete(disk.Info) },
		"info that flipped": func(b *bolt.Bucket) error { return disk.Flip(b, disk.Info) },
		"info that is none": func(b *bolt.Bucket) error { return b.Put(disk.Info, []byte("info")) },
		"no objects":        func(b *bolt.Bucket) error { return b.DeleteBucket(disk.Objects) },
		"no indexes":        func(b *bolt.Bucket) error { return b.DeleteBucket(disk.Index) },
		"no index":          func(b *bolt.Bucket) error { return b.Bucket(disk.Index).DeleteBucket([]byte("color")) },
	} {
		t.Run(name, func(t *testing.T) {
			o := store.CollectionOptions{Indexers: byNamespaceAndColor,
				IndexVersions: map[string]string{cache.NamespaceIndex: "1", "color": "1"}}
			path := filepath.Join(t.TempDir(), "larder.db")
			s := mustOpen(t, path, store.Options{})
			c := openPodsWith(t, s, o)
			relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1", storetest.ColorLabel, "red"))
			mustClose(t, s)
			s = mustOpen(t, path, store.Options{})
			err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error {
				b, err := disk.Collection(tx, storetest.Pods.ID())
				if err != nil {
					return err
				}
				return damage(b)
			})
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			s = mustOpen(t, path, store.Options{Logger: &quiet})
			o.Codec = storetest.PodCodec()
			if _, err := s.Collection(t.Context(), storetest.Pods, o); !isDamaged(err) || !isDamaged(s.Err()) {
				t.Errorf("it was opened: %v, Err: %v", err, s.Err())
			}
			_ = s.Close()
			s = mustOpen(t, path, store.Options{Logger: &quiet})
			defer s.Close()
			c = openPodsWith(t, s, o)
			info := infoOf(t, c)
			if resumable := info.Complete && info.MustRelist == ""; resumable != (info.Objects == 1) {
				t.Errorf("%+v", info)
			}
			if keys, err := c.IndexKeys(t.Context(), "color", "red"); err != nil || len(keys) != info.Objects {
				t.Error(info.Objects, "objects, of which", keys, err)
			}
			relist(t, c, store.ReplaceOptions{}, "6", upsert("a/y", "6", storetest.ColorLabel, "red"))
			if keys, err := c.IndexKeys(t.Context(), "color", "red"); err != nil || len(keys) != 1 {
				t.Error(keys, err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
				t.Errorf("%q, %v", r.Problems, err)
			}
		})
	}
}
