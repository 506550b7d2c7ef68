package base_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/internal/base"
)

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, err := range []error{
		os.MkdirAll("a/deep", 0o700), os.WriteFile("a/file", nil, 0o600),
		os.Symlink("a/file", "link"), os.Symlink(filepath.Join(dir, "a", "file"), "absolute"), os.Symlink("link", "chain"),
		os.Symlink("a/deep", "dir"), os.Symlink("a/new", "dangling"), os.Symlink("dangling", "twice"),
		os.Symlink("none/new", "nowhere"), os.Symlink("round", "about"), os.Symlink("about", "round"),
		os.Symlink("../new", "a/deep/up"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"a/file": "a/file", "link": "a/file", "absolute": "a/file", "chain": "a/file", "dir/../file": "a/file",
		"new": "new", "dir/new": "a/deep/new", "dangling": "a/new", "twice": "a/new", "dir/up": "a/new",
		filepath.Join(dir, "chain"): "a/file",
	} {
		if got, err := base.RealPath(path); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
	for _, path := range []string{"none/new", "nowhere", filepath.Join(dir, "none", "x")} {
		if got, err := base.RealPath(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	for _, path := range []string{"round", "a/file/x"} {
		if got, err := base.RealPath(path); err == nil {
			t.Errorf("%s: %s", path, got)
		}
	}
}
