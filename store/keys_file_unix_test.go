//go:build unix

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/store/seal"
)

// TestKeyFileIsNoPipe checks that a pipe is refused. The key file is read repeatedly, and a pipe would block the open.
func TestKeyFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(mustKey(t, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	later, err := seal.KeysFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.KeysFromFile(path); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
		t.Error(err)
	}
	if _, err := later.CurrentKey(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
		t.Error("later:", err)
	}
}
