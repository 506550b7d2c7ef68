package input

import (
	"fmt"
	"slices"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// Notes returns the notes of a collection. A redaction changes objects as a transform does, and has words of its own.
func Notes(c source.Collection) []entry.Note {
	redacted := RedactionOf(c) != ""
	return slices.DeleteFunc(slices.Clone(c.Notes), func(n entry.Note) bool {
		return n.Kind == entry.NoteTransform && redacted
	})
}

// KnownDefects returns the Notes of a collection that no other line of a command tells: what a snapshot leaves out or
// has redacted, and a first list that has not ended, have lines of their own.
func KnownDefects(c source.Collection) []entry.Note {
	redacted := RedactionOf(c) != ""
	return slices.DeleteFunc(Notes(c), func(n entry.Note) bool {
		return n.Kind == entry.NoteMustRelist && (!c.Complete || len(c.Filtered) > 0 || redacted)
	})
}

// TellDefects prints the known defects of collections, each once with the resources that have it.
func TellDefects(s command.IO, all []source.Collection) { tellNotes(s, all, KnownDefects) }

// TellNotes prints the Notes of collections, each once with the resources that have it.
func TellNotes(s command.IO, all []source.Collection) { tellNotes(s, all, Notes) }

func tellNotes(s command.IO, all []source.Collection, of func(source.Collection) []entry.Note) {
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
