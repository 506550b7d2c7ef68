package snapshot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/larder-dev/larder/store"
)

// A store of which one meta page is damaged can be opened with the other one, and is not replaced.
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
	if _, err := SaveSource(t.Context(), memorySource{}, path, SaveOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the store is another now, %v", err)
	}
}

// What can not be opened may be what another save makes, and is left.
func TestSaveLeavesWhatItCanNotLookAt(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("everything can be opened")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	if err := os.WriteFile(path+suffixNew+"OTHER", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := SaveSource(t.Context(), memorySource{}, path, SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNames(t, dir, "a.larder", "a.larder"+suffixNew+"OTHER")
}
