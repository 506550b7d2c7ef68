//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFollowsNoPipe: to open a pipe waits for who writes to it, for ever perhaps. A link to a file is one, as what
// a ConfigMap mounts is.
func TestReadFollowsNoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{pipe, file} {
		if err := os.Symlink(to, to+".link"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{pipe, pipe + ".link", os.DevNull} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if data, err := Read(file + ".link"); err != nil || string(data) != head {
		t.Errorf("%q, %v", data, err)
	}
}
