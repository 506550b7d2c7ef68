//go:build unix

package store

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeyFileIsNoPipe: the file is read again and again, and a pipe would make whoever opens the store wait for ever.
func TestKeyFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := KeyFile(path); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
		t.Error(err)
	}
	if _, err := (keyFile{path}).CurrentKey(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
		t.Error("later:", err)
	}
}
