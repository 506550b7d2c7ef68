package entry

import (
	"fmt"
	"time"
)

// NoteKind is what a Note is about. Its values are part of the JSON of larder status, and labels of metrics.
type NoteKind string

// Kinds of notes, in the order in which Info.Notes returns them.
const (
	// NoteMustRelist: the contents are to be listed again, and may be a mixture of two states.
	NoteMustRelist NoteKind = "mustRelist"
	// NoteLeftOut: objects were refused; they are missing, or older than the server's.
	NoteLeftOut NoteKind = "leftOut"
	// NoteTransform: a transform has changed the objects before they were stored.
	NoteTransform NoteKind = "transform"
	// NoteAge: the last contact with the server was more than OldAfter ago.
	NoteAge NoteKind = "age"
)

// NoteKinds are all kinds of notes.
var NoteKinds = []NoteKind{NoteMustRelist, NoteLeftOut, NoteTransform, NoteAge}

// OldAfter is the age from which on readers are told when the server was last in contact.
const OldAfter = time.Minute

// Note is a known defect of a collection's contents. Everything that shows or hands out the contents shows its notes.
// Text names neither the resource nor objects: not every reader may know their names.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// Notes returns the known defects of the collection at a time. Their texts change only with the defects, so that
// clients can show a text once.
func (i Info) Notes(now time.Time) []Note {
	var all []Note
	note := func(kind NoteKind, text string, args ...any) {
		all = append(all, Note{kind, fmt.Sprintf(text, args...)})
	}
	if i.MustRelist != "" {
		note(NoteMustRelist, "to be listed again (%s): objects may be missing, or older than others", i.MustRelist)
	}
	if n := len(i.LeftOut); n > 0 || i.LeftOutMore {
		many := ""
		if i.LeftOutMore {
			many = "more than "
		}
		note(NoteLeftOut, "objects that could not be stored are missing, or older than the server's: %s%d", many, n)
	}
	if version := i.Attributes.Transform; version != "" {
		note(NoteTransform, "not as the API server sent them: a transform (version %q) changed the objects", version)
	}
	if !i.LastContact.IsZero() && now.Sub(i.LastContact) > OldAfter {
		note(NoteAge, "the API server was last heard of at %s; this is what it had then",
			i.LastContact.UTC().Format(time.RFC3339))
	}
	return all
}
