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

// unfinished is the name of a file until all of it is written: of a full disk or a kill nothing half-written is left
// under the name of an object.
const unfinished = ".larder-unfinished"

// Dir is a directory that is being written.
type Dir struct {
	path string
	root *os.Root // nil before the first Put
	// Files is how many there are.
	Files int
}

// Open returns a directory to write to. It must be new, or have nothing but what begins with a dot, such as .git. Open
// changes nothing.
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

// Put writes a file, a slashed path such as Path returns, with the directories that it is in. One that was written
// already stays.
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

// Close lets go of the directory.
func (d *Dir) Close() error {
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}
