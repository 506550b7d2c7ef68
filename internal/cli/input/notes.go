package input

import (
	"fmt"
	"slices"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// Notes returns the notes of a collection. If values were redacted it leaves out the note about the transform, because
// the collection's state describes the redaction.
func Notes(c source.Collection) []entry.Note {
	redacted := RedactionOf(c) != ""
	return slices.DeleteFunc(slices.Clone(c.Notes), func(n entry.Note) bool {
		return n.Kind == entry.NoteTransform && redacted
	})
}

// KnownDefects returns the notes of a collection about defects of its data. It leaves out the notes that commands print
// separately: parts left out of a snapshot, redacted values, and an unfinished first list.
func KnownDefects(c source.Collection) []entry.Note {
	redacted := RedactionOf(c) != ""
	return slices.DeleteFunc(Notes(c), func(n entry.Note) bool {
		return n.Kind == entry.NoteMustRelist && (!c.Complete || len(c.Filtered) > 0 || redacted)
	})
}

func PrintDefects(s command.IO, all []source.Collection) { printNotes(s, all, KnownDefects) }

// PrintNotes prints each note of the collections once, with the resources that have it.
func PrintNotes(s command.IO, all []source.Collection) { printNotes(s, all, Notes) }

func printNotes(s command.IO, all []source.Collection, of func(source.Collection) []entry.Note) {
	var notes []Error
	for _, c := range all {
		for _, n := range of(c) {
			notes = addError(notes, n.Text, Label(c))
		}
	}
	for _, n := range notes {
		fmt.Fprintf(s.Err, "note: %s: %s\n", Some(n.Of), n.Text)
	}
}
