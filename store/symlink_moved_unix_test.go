//go:build unix

package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
)

// TestRekeyOfAFileThatWasMovedBehindALink checks an open store whose file was moved and replaced by a symbolic link to
// it. Rekey must not replace the link: the file behind the link would keep its plain text.
func TestRekeyOfAFileThatWasMovedBehindALink(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "s.db"), filepath.Join(dir, "moved.db")
	write(t, path, store.Options{})
	s := openAt(t, path, store.Options{Encryption: podKeys(t)})
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("moved.db", path); err != nil {
		t.Fatal(err)
	}
	_, err := s.Rekey(t.Context())
	named, statErr := os.Lstat(path)
	if statErr != nil {
		t.Fatal(statErr)
	}
	data, readErr := os.ReadFile(moved)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err == nil || named.Mode()&os.ModeSymlink == 0 {
		t.Errorf("rekey: %v; %s is %v; plain text where the link leads: %v", err, path, named.Mode(),
			bytes.Contains(data, []byte(marker)))
	}
	_ = s.Close()
}
