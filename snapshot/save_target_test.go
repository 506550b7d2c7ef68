package snapshot_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/snapshot"
)

// TestSaveDoesNotReplaceADamagedStore checks a store with one damaged meta page, which bbolt can open by the other.
func TestSaveDoesNotReplaceADamagedStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, path)
	listPods(t, s, 3, "5000")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[:64])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Save(t.Context(), memorySource{}, path, snapshot.SaveOptions{}); !errors.Is(err,
		fs.ErrExist) {
		t.Errorf("%v, want ErrExist", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the store is another now, %v", err)
	}
}
