package yamldir

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// Rehearsal finds out which files an export would replace or remove although somebody has edited them, or no export has
// written them. It changes nothing.
type Rehearsal struct {
	d *Dir
	// foreign are the files that may be in the way, and that no export has written.
	foreign map[string]bool
	// edited are the files of earlier exports that are not as they were written, and what they are.
	edited map[string][]byte
	// seen are those of them that the export has; they are in conflicts if it has something else.
	seen, conflicts map[string]bool
	covered         scopes
}

// Rehearse returns nil if no file of earlier exports was edited, and there is no other one: then there is nothing to
// find out. Else Cover, Put and Keep are called as those of the Dir will be.
func (d *Dir) Rehearse() *Rehearsal {
	r := &Rehearsal{d: d, foreign: d.foreign(), edited: map[string][]byte{}, seen: map[string]bool{},
		conflicts: map[string]bool{}}
	for file, was := range d.old {
		if there, err := d.root.ReadFile(file); err == nil && !was.wrote(there) {
			// of another error Put and Finish say what it is
			r.edited[file] = there
		}
	}
	if len(r.edited)+len(r.foreign) == 0 {
		return nil
	}
	return r
}

// foreign are the files with names as Path returns them that are not of earlier exports.
func (d *Dir) foreign() map[string]bool {
	all := map[string]bool{}
	if d.root == nil {
		return all
	}
	there, _ := fs.Glob(d.root.FS(), "*/*/*.yaml") // the pattern is right
	for _, file := range there {
		if _, known := d.old[file]; !known {
			all[file] = true
		}
	}
	return all
}

// Part is as Dir.Part: nothing is removed for it.
func (r *Rehearsal) Part(Scope) {}

// Cover is as Dir.Cover.
func (r *Rehearsal) Cover(s Scope) { r.covered = append(r.covered, s) }

// Has says whether Put need not be given the file: it was not edited, or was given.
func (r *Rehearsal) Has(file string) bool {
	_, edited := r.edited[file]
	return !edited && !r.foreign[file] || r.seen[file]
}

// Keep is as Dir.Keep.
func (r *Rehearsal) Keep(file string) { r.seen[file] = true }

// Put compares. It fails with ErrForeign, as Dir.Put would after others have been written.
func (r *Rehearsal) Put(file, _ string, text []byte) error {
	r.seen[file] = true
	if r.foreign[file] {
		if there, err := r.d.root.ReadFile(file); err == nil && !bytes.Equal(there, text) {
			return fmt.Errorf("%s: %w", file, ErrForeign)
		}
	}
	if there, edited := r.edited[file]; edited && !bytes.Equal(there, text) {
		r.conflicts[file] = true
	}
	return nil
}

// Conflicts returns the edited files that the export would replace or remove, in their order.
func (r *Rehearsal) Conflicts() []string {
	for file := range r.edited {
		if !r.seen[file] && r.covered.cover(file, r.d.old[file]) {
			r.conflicts[file] = true
		}
	}
	return slices.Sorted(maps.Keys(r.conflicts))
}
