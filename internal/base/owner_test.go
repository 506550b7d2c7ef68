//go:build unix

package base_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/base"
)

const other = 65534

func fileOfAnother(path string) error {
	return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, other, other))
}

func directoryOfAnother(path string) error {
	return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, other, other))
}

func inDirectoryOfAnother(path string) error {
	dir := path + ".d"
	file := filepath.Join(dir, "f")
	return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, nil, 0o600), os.Chown(dir, other, other),
		os.Chown(file, other, other), os.Symlink(file, path))
}

func linkOfAnother(path string) error {
	return errors.Join(os.Symlink("/dev/null", path), os.Lchown(path, other, other))
}

// TestCheckOwner checks that a file of another user is refused, with its name, only in a directory in which others may
// create files (issue 37).
func TestCheckOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for name, tt := range map[string]struct {
		dir     fs.FileMode
		make    func(path string) error
		trusted bool
	}{
		"own":                          {0o777, func(p string) error { return os.WriteFile(p, nil, 0o600) }, true},
		"another's":                    {0o777, fileOfAnother, false},
		"in a sticky one":              {0o777 | fs.ModeSticky, fileOfAnother, false},
		"in a group's":                 {0o775, fileOfAnother, false},
		"in the owner's":               {0o755, fileOfAnother, true},
		"a directory":                  {0o777, directoryOfAnother, false},
		"another's link":               {0o777, linkOfAnother, false},
		"a link to another":            {0o755, linkToAnother, false},
		"in another's directory":       {0o777 | fs.ModeSticky, inDirectoryOfAnother, false},
		"in another's, in the owner's": {0o755, inDirectoryOfAnother, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if err := errors.Join(tt.make(path), os.Chmod(dir, tt.dir)); err != nil {
				t.Fatal(err)
			}
			err := base.CheckOwner(path)
			if tt.trusted != (err == nil) || err != nil && !strings.Contains(err.Error(), "belongs to user 65534") {
				t.Errorf("%v, want trusted %v", err, tt.trusted)
			}
		})
	}
	if err := base.CheckOwner(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a missing file: %v", err)
	}
}

func linkToAnother(path string) error {
	dir := path + ".d"
	to := filepath.Join(dir, "f")
	return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777), os.WriteFile(to, nil, 0o600),
		os.Chown(to, other, other), os.Symlink(to, path))
}
