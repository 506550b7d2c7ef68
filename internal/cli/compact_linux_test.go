package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store"
)

// TestReadOnlyAndFullDisk checks the hints of compact and sync for a full disk and for a read-only file system. The
// test mounts a file system, so it needs root.
func TestReadOnlyAndFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("larder-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Logf("no file system of our own: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "s.larder")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	if err := ballast.Close(); err != nil {
		t.Fatal(err)
	}
	server := clitest.StartServer(t)
	for _, test := range []struct {
		prepare func() error
		want    string
		sync    string // sync is the expected hint of a sync that creates a store on this file system
	}{
		{func() error { return nil },
			`room for a second copy, about 1 MiB(.|\n)*hint: make room on that disk; the file is as it was`,
			`hint: make room on that disk, or name a file on another one`},
		{
			func() error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") },
			`read-only file system(.|\n)*hint: the copy is made beside the file, and that file system is read-only: `,
			`hint: that file system is read-only: mount it for writing, or name a file on another one`,
		},
	} {
		if err := test.prepare(); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		code := Run(t.Context(), []string{"compact", "--store", path}, command.IO{Out: &stderr, Err: &stderr})
		if code != command.Failed || !regexp.MustCompile(test.want).MatchString(stderr.String()) {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
		stderr.Reset()
		code = Run(t.Context(), []string{"sync", "pods", "--server", server.Config().Host, "--store",
			filepath.Join(dir, "new.db")}, command.IO{Out: &stderr, Err: &stderr})
		if code != command.Failed || !strings.Contains(stderr.String(), test.sync) {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%v are left, %v", entries, err)
		}
	}
}
