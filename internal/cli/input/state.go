package input

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// State returns the state of a collection as tables show it: where its data come from, and its notes in short form.
func State(now time.Time, c source.Collection) string {
	var briefs []string
	for _, n := range Notes(c) {
		briefs = append(briefs, n.Brief)
	}
	return stateWith(now, c, briefs)
}

// StateWithoutNotes returns the state of a collection as State does, without its notes.
func StateWithoutNotes(now time.Time, c source.Collection) string { return stateWith(now, c, nil) }

func stateWith(now time.Time, c source.Collection, briefs []string) string {
	st := "stored"
	if !c.TakenAt.IsZero() {
		st = "snapshot"
	}
	if c.Live != nil {
		st = SourceWord(*c.Live)
		if c.Live.Source == string(informer.FromDisk) && !c.Live.Since.IsZero() && !c.Live.ListOnly {
			st += " " + command.AgeOf(now, c.Live.Since)
		}
	}
	if c.Representation != string(entry.Unstructured) {
		st += ", " + c.Representation
	}
	if c.Live != nil && c.Live.NoNamespace {
		st += ", its namespace does not exist"
	}
	if c.Retired {
		st += ", retired (the API server has other versions; by its full name: " + c.Named().Full() + ")"
	}
	if !c.Persistent {
		st += ", in memory only"
	}
	if !c.Complete {
		st += ", incomplete"
	}
	for _, more := range slices.Concat(briefs, c.Filtered) {
		st += ", " + more
	}
	if c.PlainText {
		st += ", sealed, but what was stored before there was a key is legible in the file"
	}
	if len(c.Redacted) > 0 && !strings.Contains(c.MustRelist, RelistRedacted+" ("+RedactionOf(c)+")") {
		// Redacted values that the note about the next forced list already names are not repeated.
		st += ", redacted: " + strings.Join(c.Redacted, ", ")
	}
	if c.Live != nil && strings.HasPrefix(c.Live.Encoding, "JSON: ") {
		st += ", as " + c.Live.Encoding
	}
	if c.Live != nil && c.Live.Rewriting != "" {
		st += ", to be written anew (" + c.Live.Rewriting + ")"
	}
	return st
}

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

// PrintDefects prints each known defect of the collections' data once, with the resources that have it.
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

// Forbidden reports whether the running sync gets a 403 from the API server when it lists or watches the collection.
func Forbidden(c source.Collection) bool { return c.Live != nil && c.Live.Forbidden != "" }

// ForbiddenNote returns one line that names the collections that the API server forbids. all is the number of mirrored
// collections.
func ForbiddenNote(forbidden []source.Collection, all int) string {
	var labels []string
	for _, c := range forbidden {
		labels = append(labels, Label(c))
	}
	rights := "kubectl auth can-i --list shows the rights"
	if len(forbidden) == 1 {
		rights = forbidden[0].Live.Forbidden
	}
	return fmt.Sprintf("the API server forbids %d of %s: %s; they are not mirrored until it allows list and "+
		"watch, and their stored objects stay readable; %s",
		len(forbidden), command.Counted(all, "resource"), Some(labels), rights)
}

// Error is the text of an error, and the labels of the collections that have this error.
type Error struct {
	Text string
	Of   []string
}

// Errors returns the errors of the mirrored collections, in the order of the collections, and combines equal errors. It
// omits forbidden collections, because ForbiddenNote names them in one line.
func Errors(all []source.Collection) (errs []Error) {
	for _, c := range all {
		if c.Live == nil || LiveError(*c.Live) == "" || Forbidden(c) {
			continue
		}
		errs = addError(errs, LiveError(*c.Live), Label(c))
	}
	return errs
}

func addError(errs []Error, text, of string) []Error {
	i := slices.IndexFunc(errs, func(e Error) bool { return e.Text == text })
	if i < 0 {
		i, errs = len(errs), append(errs, Error{Text: text})
	}
	errs[i].Of = append(errs[i].Of, of)
	return errs
}

const mostNamed = 5

// Some joins the first mostNamed names, followed by the number of the others.
func Some(names []string) string {
	if len(names) > mostNamed+1 {
		names = append(slices.Clone(names[:mostNamed]), fmt.Sprintf("%d more", len(names)-mostNamed))
	}
	return strings.Join(names, ", ")
}

const storeSecrets = "larder sync keeps secrets in memory only, " +
	"unless it is given a key (--key-file FILE) or --persist-secrets"

// SaveElsewhere is the hint for a snapshot without Secrets; its %s is the name of the Secrets to save.
const SaveElsewhere = storeSecrets + "; larder snapshot save FILE %s, without --from, takes them from the server"

// InMemory returns the collections selected by f whose objects a running sync holds only in memory, not in the file.
func InMemory(all []source.Collection, f snapshot.Filter) []source.Collection {
	var memory []source.Collection
	for _, c := range all {
		if !c.Persistent && f.Takes(c.Saved()) {
			memory = append(memory, c)
		}
	}
	return memory
}

// NoteLeftOut prints the collections that were left out of a snapshot when it was saved.
func NoteLeftOut(s command.IO, path string, status source.Status) {
	if status.Snapshot == nil {
		return
	}
	for _, left := range status.Snapshot.LeftOut {
		fmt.Fprintf(s.Err, "note: not in %s: %s\n", path, terminal.OneLine(left))
	}
}

// NotePart prints a note for each collection selected by f of which the snapshot holds only some of the objects.
func NotePart(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if len(c.Filtered) > 0 && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", partOf(path, c))
		}
	}
}

// NoteUnfinished prints a note for each incomplete collection selected by f, because objects missing from the
// collection may exist on the server.
func NoteUnfinished(s command.IO, path string, all []source.Collection, f snapshot.Filter) {
	for _, c := range all {
		if why := unfinished(c); MissesObjects(c) && f.Takes(c.Saved()) {
			fmt.Fprintf(s.Err, "note: %s, %s: %s\n", path, Label(c), why)
		}
	}
}

func partOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s does not have all %s: %s", path, c.Named(),
		strings.Join(c.Filtered, "; "))
}

// NoteRedacted prints a note for each collection selected by f that has redacted values. remark, which may be empty,
// says how the command handles redacted values.
func NoteRedacted(s command.IO, path string, all []source.Collection, f snapshot.Filter, remark string) {
	for _, c := range all {
		if RedactionOf(c) != "" && f.Takes(c.Saved()) {
			fmt.Fprintln(s.Err, "note:", redactedOf(path, c)+remark)
		}
	}
}

func redactedOf(path string, c source.Collection) string {
	return fmt.Sprintf("%s has %s redacted: %s", path, c.Named(), RedactionOf(c))
}

// RelistRedacted begins MustRelist, the reason for a forced list, of a collection that was restored from a redacted
// snapshot.
const RelistRedacted = "objects were redacted"

// RedactionOf describes the redacted values of a collection; "" without any. In a store restored from a redacted
// snapshot, the reason for the forced list (MustRelist) holds the description until that list.
func RedactionOf(c source.Collection) string {
	if len(c.Redacted) > 0 {
		return strings.Join(c.Redacted, "; ")
	}
	_, what, ok := strings.Cut(c.MustRelist, RelistRedacted)
	if what = strings.Trim(what, " ()"); ok && what == "" {
		return "some of their values"
	}
	return what
}

// MissesObjects reports whether a collection may lack objects. A collection that must be listed again only because
// values were redacted has all objects.
func MissesObjects(c source.Collection) bool {
	return !c.Complete && !strings.HasPrefix(c.MustRelist, RelistRedacted)
}

// Unlisted reports whether the first list of a collection was never completed, and the collection has no objects or its
// list fails. A command cannot conclude anything about the server from an unlisted collection.
func Unlisted(c source.Collection) bool {
	if c.Complete || c.MustRelist != "" || len(c.Filtered) > 0 {
		return false
	}
	return c.Objects == 0 || c.Live != nil && LiveError(*c.Live) != ""
}

// UnlistedError returns the error for a command that reads collections whose first list was never completed (see
// Unlisted); nil if there are none.
func UnlistedError(path string, all []source.Collection) error {
	var errs []error
	for _, c := range all {
		switch {
		case !Unlisted(c):
		case Forbidden(c):
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: the API server forbids it to the running sync", path, Label(c)),
				"%s", strings.ReplaceAll(c.Live.Forbidden, "; ", " and ")))
		case c.Live != nil && LiveError(*c.Live) != "":
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: it fails: %s", path, Label(c), LiveError(*c.Live)),
				"the running sync goes on trying; larder wait %s returns once it has succeeded", path))
		case c.Live != nil:
			errs = append(errs, command.WithHint(fmt.Errorf("%s has no list of %s yet", path, Label(c)),
				"larder wait %s returns once the running sync has listed it", path))
		case !c.TakenAt.IsZero():
			errs = append(errs, fmt.Errorf("%s has no list of %s: there was none when it was saved", path, Label(c)))
		default:
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: the larder sync that was to mirror it has ended before", path, Label(c)),
				"mirror it with: %s", SyncCommand(path, all, c.Named().String())))
		}
	}
	return errors.Join(errs...)
}
