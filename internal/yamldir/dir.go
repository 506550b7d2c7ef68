package yamldir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrNotEmpty: the directory has files already.
var ErrNotEmpty = errors.New("it has files already")

// unfinished is the name of a file until it is completely written. So a full disk or a kill leaves no partial file
// under the name of an object.
const unfinished = ".larder-unfinished"

// Dir is a directory that is being written.
type Dir struct {
	path string
	root *os.Root // nil before the first Put
	// Files is the number of files written.
	Files int
}

// Open returns a directory to write to. It must be new, or empty except for names that begin with a dot, such as .git.
// Open changes nothing.
func Open(dir string) (*Dir, error) {
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			return nil, ErrNotEmpty
		}
	}
	return &Dir{path: dir}, nil
}

// Put writes a file and its parent directories. file is a slash-separated path, such as one from Path. A file that
// exists already is kept.
func (d *Dir) Put(file string, text []byte) error {
	if d.root == nil {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return err
		}
		root, err := os.OpenRoot(d.path)
		if err != nil {
			return err
		}
		d.root = root
	}
	if err := d.root.MkdirAll(path.Dir(file), 0o700); err != nil {
		return err
	}
	if _, err := d.root.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.root.WriteFile(unfinished, text, 0o600); err != nil {
		return errors.Join(err, d.root.Remove(unfinished))
	}
	d.Files++
	return d.root.Rename(unfinished, file)
}

// Close releases the directory.
func (d *Dir) Close() error {
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}
