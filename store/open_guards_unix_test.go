//go:build unix

package store_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestNotARegularFile checks that Open refuses pipes, sockets, devices and directories, and never blocks.
func TestNotARegularFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("directory"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a short relative path, because the path of a socket has a bounded length
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, path := range []string{at("socket"), at("directory"), at("pipe")} {
		_, writing := store.Open(path, store.Options{Logger: &quiet})
		_, reading := store.Open(path, store.Options{Logger: &quiet, ReadOnly: true})
		_, compacting := store.Compact(t.Context(), path, store.Options{Logger: &quiet})
		for what, err := range map[string]error{"write": writing, "read": reading, "compact": compacting} {
			if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "it is no regular file") {
				// Fatal: an Open that does not refuse these files would block on the pipe.
				t.Fatalf("%s %s: %v", what, filepath.Base(path), err)
			}
		}
	}
	wantNames(t, dir, "directory", "pipe", "socket")
}

// TestDamagedFileThatCannotBeMovedAside checks that the error of Open names the damage and why it is not moved.
func TestDamagedFileThatCannotBeMovedAside(t *testing.T) {
	// The file name has room for the suffix ".opening", but not for the longer suffix of a damaged file.
	path := filepath.Join(t.TempDir(), strings.Repeat("s", 255-len(".opening")))
	damaged := append(another(t, true)[:8192:8192], make([]byte, 8192)...)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(path, store.Options{Logger: &quiet})
	if !errors.Is(err, entry.ErrDamaged) || !errors.Is(err, syscall.ENAMETOOLONG) ||
		!strings.Contains(err.Error(), "cannot be moved aside") {
		t.Errorf("Open: %v", err)
	}
	if string(readFile(t, path)) != string(damaged) {
		t.Error("the file was changed")
	}
}
