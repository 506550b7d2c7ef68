package input

import (
	"fmt"
	"slices"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// KnownDefects returns the notes of a collection that no other line of a command tells: what a snapshot leaves out or
// has redacted, and a first list that has not ended, have lines of their own.
func KnownDefects(c source.Collection) []entry.Note {
	redacted := RedactionOf(c) != ""
	return slices.DeleteFunc(slices.Clone(c.Notes), func(n entry.Note) bool {
		return n.Kind == entry.NoteMustRelist && (!c.Complete || len(c.Filtered) > 0 || redacted) ||
			n.Kind == entry.NoteTransform && redacted
	})
}

// TellDefects prints the known defects of collections, each once with the resources that have it.
func TellDefects(s command.IO, all []source.Collection) {
	var notes []Error
	for _, c := range all {
		for _, n := range KnownDefects(c) {
			notes = addError(notes, n.Text, Label(c))
		}
	}
	for _, n := range notes {
		fmt.Fprintf(s.Err, "note: %s: %s\n", Some(n.Of), n.Text)
	}
}
