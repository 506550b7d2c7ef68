package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
)

// TestRekeyThatCannotReplaceTheFile checks that the file keeps the data key of its records.
func TestRekeyThatCannotReplaceTheFile(t *testing.T) {
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
