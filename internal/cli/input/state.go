package input

import (
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// State returns the state of a collection as tables show it: where its data come from, and its notes in short form.
func State(now time.Time, c source.Collection) string {
	var briefs []string
	for _, n := range Notes(c) {
		briefs = append(briefs, n.Brief)
	}
	return stateWith(now, c, briefs)
}

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
