package yamldir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// Dir is a directory to which files of objects are being written.
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

// Close closes the directory. The files stay.
func (d *Dir) Close() error {
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}

// cluster is the name of the directory of cluster-scoped objects. No namespace can have this name.
const cluster = "_cluster"

// maxElement is the maximum length in bytes of a file name without ".yaml". Most file systems allow 255 bytes, some
// encrypting file systems only 143.
const maxElement = 130

// Path returns the path of an object's file: namespace or _cluster, then the resource with its group
// (deployments.apps), then the name. The path is legal on every file system, including case-insensitive ones, and
// different objects of a cluster have different paths.
func Path(namespace, resource, name string) string {
	if namespace == "" {
		namespace = cluster
	} else {
		namespace = element(namespace)
	}
	return path.Join(namespace, element(resource), element(name)+".yaml")
}

// element returns a name in a form that is legal as an element of a path. Bytes other than small letters, digits, "-",
// "." and "_" are written as %XX, and so is the first byte of a name that is a device on Windows or has a meaning for a
// shell or git. A name that is too long is cut, and ends in a hash of the whole name.
func element(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' && i > 0 || c == '-' && i > 0 || c == '.' &&
			i > 0 && i < len(name)-1
		if plain && (i > 0 || !isDevice(name)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	text := b.String()
	if len(text) <= maxElement {
		return text
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(text[:maxElement-17], ".") + "~" + hex.EncodeToString(sum[:8])
}

func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "com") || strings.HasPrefix(base, "lpt")) && base[3] >= '0' &&
		base[3] <= '9'
}
