package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// larderOnce builds the command once for all tests, because linking takes many seconds. The binary has no debug
// information.
var larderOnce = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(shared.Dir(), "bin", "larder")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/larder")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building larder: %w\n%s", err, out)
	}
	return path, nil
})

func buildLarder(t *testing.T, dir string) string {
	t.Helper()
	built, err := larderOnce()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "larder")
	if err := os.Symlink(built, path); err != nil {
		t.Fatal(err)
	}
	return path
}
