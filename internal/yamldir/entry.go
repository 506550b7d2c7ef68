package yamldir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// entry is what is known of a file that an export has written.
type entry struct {
	// sums are digests of what may have been written.
	sums []string
	// selection is the Scope's for which it was written; empty if it was all of a resource.
	selection string
}

// add notes what a later line says of a file: which of two contents was written nobody knows.
func add(all map[string]entry, file string, e entry) {
	e.sums = append(slices.Clone(all[file].sums), e.sums...)
	all[file] = e
}

// wrote says whether that is what was written.
func (e entry) wrote(text []byte) bool { return slices.Contains(e.sums, sumOf(text)) }

// sumOf is the digest of a file. Git may have given its lines other ends.
func sumOf(text []byte) string {
	sum := sha256.Sum256(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	return hex.EncodeToString(sum[:16])
}

// Scope is a part of a directory.
type Scope struct {
	// Resource is the plural name with its group, as in Path.
	Resource string
	// Namespaces are those of which; empty is all, and what is in none.
	Namespaces []string
	// Selection says, in a text of one line, which objects of them; empty is all.
	Selection string
}

// has says whether a file is in the scope, as far as names tell.
func (s Scope) has(file string) bool {
	parts := strings.Split(file, "/")
	if len(parts) != 3 || parts[1] != element(s.Resource) {
		return false
	}
	return len(s.Namespaces) == 0 || slices.ContainsFunc(s.Namespaces,
		func(ns string) bool { return parts[0] == element(ns) })
}

// scopes are those that an export covers.
type scopes []Scope

// cover says whether a file of an earlier export is gone if this one does not have it.
func (all scopes) cover(file string, e entry) bool {
	return slices.ContainsFunc(all, func(s Scope) bool {
		return s.has(file) &&
			(s.Selection == "" || s.Selection == e.selection)
	})
}
