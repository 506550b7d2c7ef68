package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func changeKeys(t *testing.T, s *store.Store, change func(data []byte) []byte) {
	t.Helper()
	err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		b := tx.Bucket(disk.Root)
		return b.Put(disk.Keys, change(bytes.Clone(b.Get(disk.Keys))))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flipLast flips the last bit of the record that has the wrapped data keys.
func flipLast(data []byte) []byte {
	data[len(data)-1] ^= 1
	return data
}

func mustDamageKeys(t *testing.T, n int, e *seal.Encryption) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store")
	writeSealed(t, path, n, e)
	s := mustOpen(t, path, store.Options{})
	changeKeys(t, s, flipLast)
	mustClose(t, s)
	return path
}

// TestDataKeysThatAreDamaged checks that a file with damaged data keys is moved aside, and that the unsealed
// collections are kept. Unsealed records of the moved file stay readable without keys.
func TestDataKeysThatAreDamaged(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	path := mustDamageKeys(t, 10, e)
	var log logged
	s := mustOpen(t, path, store.Options{Encryption: e, Logger: log.logger()})
	moved := s.Quarantined()
	if moved == "" || log.count("moved aside", "data keys", "cannot be opened any more") != 1 {
		t.Fatalf("moved to %q:\n%s", moved, log.text())
	}
	if infos, err := s.Collections(t.Context()); err != nil || len(infos) != 1 || infos[0].Sealed {
		t.Errorf("%+v, %v", infos, err)
	}
	mustList(t, openAs(t, s, store.None), 10)
	wantSound(t, s)
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: e, Logger: log.logger()})
	wantPods(t, openAs(t, s, store.None), 10, nil)
	mustClose(t, s)
	s = mustOpen(t, moved, store.Options{ReadOnly: true})
	if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
		t.Errorf("%d widgets in the copy", n)
	}
	mustClose(t, s)
}

// TestDataKeysThatAreDamagedAndReaders checks read-only opens of a file with damaged data keys: with encryption keys
// the open fails with a reason; without keys unsealed records can be read.
func TestDataKeysThatAreDamagedAndReaders(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	path := mustDamageKeys(t, 10, e)
	before := mustRead(t, path)
	s, err := store.Open(path, store.Options{ReadOnly: true, Logger: &quiet, Encryption: e})
	if s != nil || !isDamaged(err) || !strings.Contains(err.Error(), "can be read without keys") {
		t.Errorf("with keys: %v", err)
	}
	if _, err := store.Rekey(t.Context(), path, store.Options{Logger: &quiet, Encryption: e}); !isDamaged(err) {
		t.Errorf("rekey: %v", err)
	}
	s = mustOpen(t, path, store.Options{ReadOnly: true})
	if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
		t.Errorf("%d widgets", n)
	}
	v, err := s.View(t.Context(), pods())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get(t.Context(), "namespace-0/pod-0000"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("without keys: %v", err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) == 0 ||
		!strings.Contains(r.Problems[0], "data keys") {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	mustClose(t, s)
	wantNames(t, filepath.Dir(path), "store")
	if len(before) != len(mustRead(t, path)) {
		t.Error("the file was written anew")
	}
}

// TestDataKeysDamagedWhileOpen checks that Scrub finds damaged data keys in the file. The next Open loses the sealed
// records, which must be listed again.
func TestDataKeysDamagedWhileOpen(t *testing.T) {
	for _, withKeys := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "store")
		e := sealing(t, mustKey(t, ""))
		writeSealed(t, path, 10, e)
		var o store.Options
		if withKeys {
			o.Encryption = e
		}
		s := mustOpen(t, path, o)
		changeKeys(t, s, flipLast)
		if err := s.Scrub(t.Context()); !isDamaged(err) {
			t.Errorf("scrub: %v", err)
		}
		_ = s.Close()
		s = mustOpen(t, path, o)
		wantSound(t, s)
		if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
			t.Errorf("%d widgets", n)
		}
		mustClose(t, s)
		s = mustOpen(t, path, store.Options{Encryption: e})
		if infos, err := s.Collections(t.Context()); err != nil || len(infos) != 1 {
			t.Errorf("%+v, %v", infos, err)
		}
		wantSound(t, s)
		mustClose(t, s)
	}
}

// TestDataKeysOfANewerProgram checks that data keys in a newer format are not treated as damage.
func TestDataKeysOfANewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, store.Options{})
	changeKeys(t, s, func(data []byte) []byte {
		data[0] = 9
		return disk.Reseal(string(disk.Root), string(disk.Keys), data)
	})
	s = salvage(t, s, store.Options{})
	wantSound(t, s)
	mustClose(t, s)
	if err := os.Remove(s.Quarantined()); err != nil {
		t.Fatal(err)
	}
	if s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: e}); s != nil ||
		!errors.Is(err, entry.ErrIncompatible) || isDamaged(err) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("%v", err)
	}
	wantNames(t, filepath.Dir(path), "store")
}
