package store_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/store"
)

// TestFileSizeLimit checks that a store that reaches RLIMIT_FSIZE loses nothing. A child process has this limit.
func TestFileSizeLimit(t *testing.T) {
	runChild(t, "file-size-limit", filepath.Join(t.TempDir(), "store"))
}

// mountSmall mounts a tmpfs of 8 MiB. It returns false unless the test runs as root.
func mountSmall(t *testing.T) (dir string, ok bool) {
	t.Helper()
	return mountWith(t, "size=8m")
}

func mountWith(t *testing.T, options string) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("larder-test", dir, "tmpfs", 0, options); err != nil {
		t.Logf("no file system of our own: %v", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// TestFullDisk fills a small file system, frees space and continues. Only root can mount the file system;
// TestFileSizeLimit and TestMaxSize need no privileges.
func TestFullDisk(t *testing.T) {
	dir, ok := mountSmall(t)
	if !ok {
		return
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "store")
	s := mustOpen(t, path, store.Options{})
	n, err := fillFile(s, 0)
	wantFull(t, s, n, err)

	// A store on a full disk can still be opened and read.
	mustClose(t, s)
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = rest.Write(make([]byte, 4096))
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, store.Options{})
	_, err = fillFile(s, n)
	wantFull(t, s, n, err)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	more, err := fillFile(s, n)
	wantFull(t, s, more, err)
	if more <= n {
		t.Errorf("%s keys before there was room, %s after", strconv.Itoa(n), strconv.Itoa(more))
	}
}
