package yamldir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
)

// Dir is a directory that is being written.
type Dir struct {
	root *os.Root
	// old are the files of earlier exports, now those of this one, as slashed paths.
	old, now map[string]bool
	journal  *os.File
	counts   Counts
}

// Counts is what became of the files.
type Counts struct {
	Written   int // new, or changed
	Unchanged int
	Removed   int
}

// Files is how many there are.
func (c Counts) Files() int { return c.Written + c.Unchanged }

// Open opens a directory, which it makes if there is none. What is in it stays as it is until Put and Finish.
func Open(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, now: map[string]bool{}}
	if err := d.start(); err != nil {
		_ = root.Close() // it was only read
		return nil, err
	}
	return d, nil
}

func (d *Dir) start() error {
	var err error
	if d.old, err = readList(d.root, Marker); err != nil {
		return err
	}
	left, err := readList(d.root, journal) // of an export that was killed
	if err != nil {
		return err
	}
	maps.Copy(d.old, left)
	if err := d.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.journal, err = d.root.OpenFile(journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// Has says whether Put was given the file already.
func (d *Dir) Has(file string) bool { return d.now[file] }

// Put writes a file, a slashed path such as Path returns, unless it is there and the same. It fails with ErrForeign if another file is in its place.
func (d *Dir) Put(file string, text []byte) error {
	d.now[file] = true
	there, err := d.root.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(there, text):
		d.counts.Unchanged++
		return d.note(file)
	case err == nil && !d.old[file]:
		return fmt.Errorf("%s: %w", file, ErrForeign)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := d.root.MkdirAll(path.Dir(file), 0o700); err != nil {
		return err
	}
	if err := d.note(file); err != nil {
		return err
	}
	if err := d.replace(file, text); err != nil {
		return err
	}
	d.counts.Written++
	return nil
}

// note has a file in the journal before it is made.
func (d *Dir) note(file string) error {
	if d.old[file] {
		return nil
	}
	_, err := d.journal.WriteString(file + "\n")
	return err
}

func (d *Dir) replace(file string, text []byte) error {
	if err := d.root.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return d.root.Rename(temporary, file)
}

// Finish removes the files of earlier exports that this one does not have, with directories that are empty then, and writes the list.
func (d *Dir) Finish() (Counts, error) {
	for file := range d.old {
		if d.now[file] {
			continue
		}
		err := d.root.Remove(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.counts, err
		}
		if err == nil {
			d.counts.Removed++
		}
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			if d.root.Remove(dir) != nil { // it is not empty
				break
			}
		}
	}
	text := listText(d.now)
	if there, err := d.root.ReadFile(Marker); err != nil || !bytes.Equal(there, text) {
		if err := d.replace(Marker, text); err != nil {
			return d.counts, err
		}
	}
	return d.counts, errors.Join(d.journal.Close(), d.root.Remove(journal))
}

// Close lets go of the directory. Without Finish, what was written stays, and the next export knows it.
func (d *Dir) Close() error {
	_ = d.journal.Close() // Finish has done so, or the next export reads what there is
	return d.root.Close()
}
