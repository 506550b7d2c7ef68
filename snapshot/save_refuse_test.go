package snapshot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// TestSaveReplacesNoStore checks that a save replaces neither the saved store nor another one.
func TestSaveReplacesNoStore(t *testing.T) {
	dir := t.TempDir()
	db, other := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	if err := mustOpen(t, other).Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.larder")
	if err := os.Symlink("a.db", link); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, db)
	listPods(t, s, 10, "5000")
	if err := os.WriteFile(db+".new-copy", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db, link, other} {
		if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("SaveStore to %s: %v", path, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := saveFile(t, db, db, store.Options{}, snapshot.SaveOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Save: %v", err)
	}
	wantNames(t, dir, "a.db", "a.db.new-copy", "b.db", "link.larder")
	s = mustOpen(t, db)
	if n := len(recordsOf(t, snapshot.StoreSource(s), savedPods)); n != 10 {
		t.Errorf("%d pods", n)
	}
}

// TestSaveReplacesNoStoreThatAppears checks that a store created during the save is not replaced.
func TestSaveReplacesNoStoreThatAppears(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	listPods(t, s, 10, "5000")
	path := filepath.Join(dir, "a.larder")
	_, err := snapshot.SaveStore(t.Context(), s, path,
		snapshot.SaveOptions{Accept: func(snapshot.Saved) error { return mustOpen(t, path).Close() }})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want ErrExist", err)
	}
	wantNames(t, dir, "a.larder")
	if err := mustOpen(t, path).Close(); err != nil {
		t.Error(err)
	}
}
