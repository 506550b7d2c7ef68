package input

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// State says in a few words what a collection's data is worth.
func State(now time.Time, c source.Collection) string {
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
	if !c.Persistent {
		st += ", in memory only"
	}
	if !c.Complete {
		st += ", incomplete"
	}
	if len(c.LeftOut) > 0 || c.LeftOutMore {
		st += ", " + LeftOut(len(c.LeftOut), c.LeftOutMore) + " left out"
	}
	if c.MustRelist != "" {
		st += ", to be listed anew (" + c.MustRelist + ")"
	}
	if slices.ContainsFunc(KnownDefects(c), func(n entry.Note) bool { return n.Kind == entry.NoteTransform }) {
		st += ", changed by a transform"
	}
	for _, left := range c.Filtered {
		st += ", " + left
	}
	if c.PlainText {
		st += ", sealed, but what was stored before there was a key is legible in the file"
	}
	if len(c.Redacted) > 0 && !strings.Contains(c.MustRelist, RelistRedacted+" ("+RedactionOf(c)+")") {
		// else that has said it
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

// LeftOut says how many objects were left out.
func LeftOut(n int, more bool) string {
	if !more {
		return command.Counted(n, "object")
	}
	return fmt.Sprintf("more than %s", command.Counted(n, "object"))
}
