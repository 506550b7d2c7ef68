//go:build unix

package kubeconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/serve/access/kubeconfig"
)

// TestKubeconfigOfAnotherUser checks that a kubeconfig that another user has placed in a world-writable directory is
// neither read nor replaced, and that the error names it (issue 37).
func TestKubeconfigOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	c := config(t)
	for _, err := range []error{c.Write(path), os.Chown(path, 65534, 65534), os.Chmod(dir, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := kubeconfig.Token(path, c.Name)
	for what, err := range map[string]error{"read": err, "write": c.Write(path), "check": kubeconfig.Check(path, c.Name)} {
		if err == nil || !strings.Contains(err.Error(), path+" belongs to user 65534") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := kubeconfig.Token(path, c.Name); err != nil || got != c.Token {
		t.Errorf("in the owner's directory: %v", err)
	}
}
