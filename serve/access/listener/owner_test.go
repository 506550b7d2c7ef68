//go:build unix

package listener_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access/listener"
)

// TestCertificatesOfAnotherUser checks that Generate rejects a directory that another user has placed in a
// world-writable directory, and that the error names it (issue 37).
func TestCertificatesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "s.db.tls")
	generate(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range append(files, dir) {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	log := logr.Discard()
	_, err = listener.Generate(listener.Options{Dir: dir, Logger: &log})
	if err == nil || !strings.Contains(err.Error(), dir+" belongs to user 65534") {
		t.Errorf("%v", err)
	}
}
