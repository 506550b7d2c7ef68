package entry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NoteKind is the subject of a Note. The values are part of the JSON of larder status, and labels of metrics.
type NoteKind string

// Kinds of notes, in the order in which Info.Notes returns them.
const (
	// NoteMustRelist means that a relist is due, and that the contents may be a mixture of two states.
	NoteMustRelist NoteKind = "mustRelist"
	// NoteLeftOut means that objects were refused; they are missing, or older than the server's.
	NoteLeftOut NoteKind = "leftOut"
	// NoteTransform means that a transform function changed the objects before they were stored.
	NoteTransform NoteKind = "transform"
	// NoteListOnly means that the server lists the resource and refuses to watch it.
	NoteListOnly NoteKind = "listOnly"
	// NoteAge means that the last contact with the server was more than OldAfter ago.
	NoteAge NoteKind = "age"
)

// NoteKinds are all kinds of notes.
var NoteKinds = []NoteKind{NoteMustRelist, NoteLeftOut, NoteTransform, NoteListOnly, NoteAge}

// OldAfter is the age of the last contact above which Info.Notes returns a NoteAge.
const OldAfter = time.Minute

// Note is a known defect of a collection's contents. Everything that shows or returns the contents shows the notes.
// Text names neither the resource nor objects, because not every reader may know their names. Brief is a shorter Text,
// for a table with the age in another column; NoteAge has none.
type Note struct {
	Kind  NoteKind `json:"kind"`
	Text  string   `json:"text"`
	Brief string   `json:"brief,omitempty"`
}

// Notes returns the known defects of the collection at the time now. listOnly says that the server lists the resource
// but refuses to watch it (reflector.Status.ListOnly); only the process that mirrors the collection knows that. A text
// changes only with its defect, so that clients can show it once.
func (i Info) Notes(now time.Time, listOnly bool) []Note {
	var all []Note
	if why := i.MustRelist; why != "" && why != MustRelistOpaque {
		all = append(all, Note{NoteMustRelist,
			fmt.Sprintf("to be listed again (%s): objects may be missing, or older than others", why),
			fmt.Sprintf("must relist (%s)", why)})
	}
	if n := len(i.LeftOut); n > 0 || i.LeftOutMore {
		many := strconv.Itoa(n)
		if i.LeftOutMore {
			many = "more than " + many
		}
		things := "objects"
		if many == "1" {
			things = "object"
		}
		all = append(all, Note{NoteLeftOut,
			"objects that could not be stored are missing, or older than the server's: " + many + i.whyLeftOut(),
			fmt.Sprintf("%s %s left out", many, things)})
	}
	if version := i.Attributes.Transform; version != "" {
		all = append(all, Note{NoteTransform,
			fmt.Sprintf("not as the API server sent them: a transform (version %q) changed the objects", version),
			"changed by a transform"})
	}
	if listOnly {
		all = append(all, Note{NoteListOnly, "the API server refuses to watch the objects: they are listed about once a " +
			"minute, and changes between two lists are not seen", "cannot be watched"})
	}
	if !i.LastContact.IsZero() && now.Sub(i.LastContact) > OldAfter {
		all = append(all, Note{NoteAge, fmt.Sprintf("the API server was last heard of at %s; this is what it had then",
			i.LastContact.UTC().Format(time.RFC3339)), ""})
	}
	return all
}

func (i Info) whyLeftOut() string {
	var all []string
	for _, l := range i.LeftOut {
		if why := l.Reason.why(); why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return " (" + strings.Join(all, "; ") + ")"
}

// why returns the reason in words for users, or "" for a reason without any.
func (r LeftOutReason) why() string {
	switch r {
	case LeftOutTransform:
		return "a transform failed"
	case LeftOutIndex:
		return "an index function failed"
	case LeftOutCodec:
		return "they could not be encoded or decoded"
	case LeftOutKey:
		return fmt.Sprintf("their names are longer than the %d bytes that can be stored", MaxKey)
	}
	return ""
}
