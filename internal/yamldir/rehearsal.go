package yamldir

import (
	"bytes"
	"maps"
	"slices"
)

// Rehearsal finds out which files an export would replace or remove although somebody has edited them. It changes nothing.
type Rehearsal struct {
	d *Dir
	// edited are the files of earlier exports that are not as they were written, and what they are.
	edited map[string][]byte
	// seen are those of them that the export has; they are in conflicts if it has something else.
	seen, conflicts map[string]bool
	covered         scopes
}

// Rehearse returns nil if no file of earlier exports was edited: then there is nothing to find out. Else Cover, Put and Keep are called as those of the Dir will be.
func (d *Dir) Rehearse() *Rehearsal {
	r := &Rehearsal{d: d, edited: map[string][]byte{}, seen: map[string]bool{}, conflicts: map[string]bool{}}
	for file, was := range d.old {
		if there, err := d.root.ReadFile(file); err == nil && !was.wrote(there) { // of another error Put and Finish say what it is
			r.edited[file] = there
		}
	}
	if len(r.edited) == 0 {
		return nil
	}
	return r
}

// Part is as Dir.Part: nothing is removed for it.
func (r *Rehearsal) Part(Scope) {}

// Cover is as Dir.Cover.
func (r *Rehearsal) Cover(s Scope) { r.covered = append(r.covered, s) }

// Has says whether Put need not be given the file: it was not edited, or was given.
func (r *Rehearsal) Has(file string) bool {
	_, edited := r.edited[file]
	return !edited || r.seen[file]
}

// Keep is as Dir.Keep.
func (r *Rehearsal) Keep(file string) { r.seen[file] = true }

// Put compares.
func (r *Rehearsal) Put(file, _ string, text []byte) error {
	r.seen[file] = true
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
