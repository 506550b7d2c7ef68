package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// TestRekeyThatCanNotTakeThePlace: the old file keeps the data keys that it needs, also when it is written afterwards.
func TestRekeyThatCanNotTakeThePlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, store.Options{Encryption: e})
	c := mustCollection(t, s, pods())
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rekey(t.Context()); !errors.Is(err, store.ErrForeign) {
		t.Fatal(err)
	}
	if err := os.Rename(path+"-moved", path); err != nil {
		t.Fatal(err)
	}
	applyNewer(t, c, 0, 0, 9000)
	mustClose(t, s)

	s = mustOpen(t, path, store.Options{Encryption: e})
	wantDataKeys(t, s, 1)
	wantPods(t, mustCollection(t, s, pods()), 10, nil)
	wantSound(t, s)
	mustClose(t, s)
}

// TestRekeyOfAnOpenCollectionWithoutItsMark: what an older program wrote without the mark, and is open and not sealed
// by the options, is sealed from Rekey on, as its Info says.
func TestRekeyOfAnOpenCollectionWithoutItsMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	key := mustKey(t, "")
	writeSealed(t, path, 10, sealing(t, key))
	s := mustOpen(t, path, store.Options{Encryption: &seal.Encryption{Keys: mustKeys(t, key)}}) // of Secrets only
	err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, pods().ID())
		if err != nil {
			return err
		}
		return disk.EditInfo(b, pods().ID(), func(info map[string]any) { delete(info, "sealed") })
	})
	if err != nil {
		t.Fatal(err)
	}
	c := openPacked(t, s, store.Zstd)
	mustRekey(t, s)
	applyNewer(t, c, 0, 5, 9000)
	if info := mustInfo(t, c); !info.Sealed || info.PlainText {
		t.Errorf("%+v", info)
	}
	if n, err := plainRecords(s); err != nil || n > 0 {
		t.Errorf("%d records in plain text, %v", n, err)
	}
	mustClose(t, s)
}
