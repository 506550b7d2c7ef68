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
	path string
	root *os.Root // nil if there is no directory yet
	// old are the files of earlier exports, now those of this one, as slashed paths; kept are of both.
	old, now map[string]entry
	kept     map[string]bool
	covered  scopes
	parts    scopes   // of which files may be missing
	journal  *os.File // nil before Make
	counts   Counts
}

// Counts is what became of the files.
type Counts struct {
	Written   int // new, or changed
	Unchanged int
	Removed   int
	// Left are files of earlier exports that are in none of the scopes, Parted those that are in one of Part.
	Left, Parted int
}

// Files is how many this export has.
func (c Counts) Files() int { return c.Written + c.Unchanged }

// Open opens a directory, which need not be there yet. It changes nothing.
func Open(dir string) (*Dir, error) {
	d := &Dir{path: dir, old: map[string]entry{}, now: map[string]entry{}, kept: map[string]bool{}}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	d.root = root
	if err := d.read(); err != nil {
		_ = root.Close() // it was only read
		return nil, err
	}
	return d, nil
}

func (d *Dir) read() error {
	var err error
	if d.old, err = readList(d.root, Marker); err != nil {
		return err
	}
	left, err := readList(d.root, journal) // of an export that was killed
	if err != nil {
		return err
	}
	for file, e := range left {
		add(d.old, file, e)
	}
	return nil
}

// Make makes the directory if there is none, and has Put write to it. A second call does nothing.
func (d *Dir) Make() error {
	if d.journal != nil {
		return nil
	}
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
	if err := d.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var err error
	d.journal, err = d.root.OpenFile(journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// Cover says that all files of a scope are to come: others in it, of earlier exports, are gone.
func (d *Dir) Cover(s Scope) { d.covered = append(d.covered, s) }

// Part says that files of a scope are to come, and others may be missing: what is in it of earlier exports is left.
func (d *Dir) Part(s Scope) { d.parts = append(d.parts, s) }

// Has says whether Put was given the file already.
func (d *Dir) Has(file string) bool {
	_, has := d.now[file]
	return has
}

// Keep has a file of an earlier export left as it is: its object is there, and cannot be written.
func (d *Dir) Keep(file string) { d.kept[file] = true }

// Put writes a file, a slashed path such as Path returns, unless it is there and the same. selection is the Scope's. It
// fails with ErrForeign or ErrEdited if something else is in its place. Make comes before it.
func (d *Dir) Put(file, selection string, text []byte) error {
	was, known := d.old[file]
	if known && was.selection == "" { // it may not match later, and is not gone then
		selection = ""
	}
	e := entry{[]string{sumOf(text)}, selection}
	d.now[file] = e
	there, err := d.root.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(there, text):
		d.counts.Unchanged++
		if known {
			return nil
		}
		return d.note(file, e)
	case err == nil && !known:
		return fmt.Errorf("%s: %w", file, ErrForeign)
	case err == nil && !was.wrote(there):
		return fmt.Errorf("%s: %w", file, ErrEdited)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := d.root.MkdirAll(path.Dir(file), 0o700); err != nil {
		return err
	}
	if err := d.note(file, e); err != nil {
		return err
	}
	if err := d.replace(file, text); err != nil {
		return err
	}
	d.counts.Written++
	return nil
}

// note has a file in the journal before it is written.
func (d *Dir) note(file string, e entry) error {
	_, err := d.journal.WriteString(line(file, e))
	return err
}

func (d *Dir) replace(file string, text []byte) error {
	if err := d.root.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return d.root.Rename(temporary, file)
}

// Finish removes the files of earlier exports that are in a scope and that this one does not have, with directories
// that are empty then, and writes the list.
func (d *Dir) Finish() (Counts, error) {
	list := maps.Clone(d.now)
	for file, was := range d.old {
		if d.Has(file) {
			continue
		}
		left, err := d.clear(file, was)
		if err != nil {
			return d.counts, err
		}
		if left {
			list[file] = was
		}
	}
	text := listText(list)
	if there, err := d.root.ReadFile(Marker); err != nil || !bytes.Equal(there, text) {
		if err := d.replace(Marker, text); err != nil {
			return d.counts, err
		}
	}
	return d.counts, errors.Join(d.journal.Close(), d.root.Remove(journal))
}

// clear removes a file of an earlier export if it is gone, and says whether it is left.
func (d *Dir) clear(file string, was entry) (left bool, err error) {
	there, err := d.root.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if d.kept[file] {
		return true, nil
	}
	if !d.covered.cover(file, was) {
		if d.parts.cover(file, was) {
			d.counts.Parted++
		} else {
			d.counts.Left++
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !was.wrote(there) {
		return false, fmt.Errorf("%s: %w", file, ErrEdited)
	}
	if err := d.root.Remove(file); err != nil {
		return false, err
	}
	d.counts.Removed++
	d.removeEmpty(path.Dir(file))
	return false, nil
}

// removeEmpty removes a directory, and those that it is in, as far as they are empty.
func (d *Dir) removeEmpty(dir string) {
	for ; dir != "." && d.root.Remove(dir) == nil; dir = path.Dir(dir) {
	}
}

// Close lets go of the directory. Without Finish, what was written stays, and the next export knows it.
func (d *Dir) Close() error {
	if d.journal != nil {
		_ = d.journal.Close() // Finish has done so, or the next export reads what there is
	}
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}
