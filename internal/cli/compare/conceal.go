package compare

import (
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// ChangedFields returns the fields that differ between the old and the new state of a changed object. Confidential
// values are replaced by Hidden.
func ChangedFields(c diff.Change) []Field {
	fields := Fields(c.Before.Object, c.After.Object, Concealed(c.Collection))
	if c.Kind == diff.Replaced {
		fields = slices.DeleteFunc(fields, isRecreated)
	}
	return fields
}

// isRecreated reports whether f is a field, such as the uid, that always differs after an object was deleted and
// created again.
func isRecreated(f Field) bool {
	is := func(lines []string) bool {
		return len(lines) == 1 && (strings.HasPrefix(lines[0], "uid: ") || strings.HasPrefix(lines[0], "creationTimestamp: "))
	}
	return f.Path == "metadata" && is(f.Before) && is(f.After)
}

// Concealed returns a function that reports whether the value at a path is confidential in objects of the collection c.
// It returns nil if no value of c is confidential.
func Concealed(c snapshot.Collection) func(path []string) bool {
	switch {
	case c.Confidential() == "":
		return nil
	case c.Identity.GroupResource() != input.Secrets.GroupResource():
		// The store encrypts the objects of a resource other than Secrets: every value is confidential.
		return func([]string) bool { return true }
	}
	return func(path []string) bool {
		annotations := len(path) > 1 && path[0] == "metadata" && path[1] == "annotations"
		return path[0] == "data" || path[0] == "stringData" || annotations
	}
}
