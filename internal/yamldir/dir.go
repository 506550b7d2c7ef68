package yamldir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrNotEmpty: the directory to which files are to be written already contains files.
var ErrNotEmpty = errors.New("it has files already")

// unfinished is the name of each file until the file is complete. So a full disk or a killed process leaves no partial
// file under an object's name.
const unfinished = ".larder-unfinished"

type Dir struct {
	path string
	root *os.Root // the opened directory; nil before the first Put
	// Files is the number of files written so far.
	Files int
}

// Open returns a Dir for the directory at path dir. The directory must be missing or empty, except for names that begin
// with a dot, such as .git. Open changes nothing.
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

// Put writes a file and creates the directories above the file. file is a slash-separated path, such as a result of
// Path. Put does not replace an existing file.
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

func (d *Dir) Close() error {
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}
