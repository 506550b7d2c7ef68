package entry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
)

// TestNotes checks the text of each known defect. A text changes only with its defect (issue 37).
func TestNotes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	leftOut := func(n int) []entry.LeftOut { return make([]entry.LeftOut, n) }
	for _, tt := range []struct {
		info        entry.Info
		listOnly    bool
		kind        entry.NoteKind // kind of the only note; empty if there is none
		text, brief string
	}{
		{info: entry.Info{Complete: true, LastContact: now.Add(-entry.OldAfter)}},
		{info: entry.Info{Complete: true, MustRelist: entry.MustRelistOpaque}},
		{info: entry.Info{MustRelist: "damaged"}, kind: entry.NoteMustRelist, brief: "must relist (damaged)",
			text: "to be listed again (damaged): objects may be missing, or older than others"},
		{info: entry.Info{LeftOut: leftOut(1)}, kind: entry.NoteLeftOut, brief: "1 object left out",
			text: "objects that could not be stored are missing, or older than the server's: 1"},
		{info: entry.Info{LeftOut: leftOut(100), LeftOutMore: true}, kind: entry.NoteLeftOut,
			brief: "more than 100 objects left out",
			text:  "objects that could not be stored are missing, or older than the server's: more than 100"},
		{info: entry.Info{LeftOutMore: true}, kind: entry.NoteLeftOut, brief: "more than 0 objects left out",
			text: "objects that could not be stored are missing, or older than the server's: more than 0"},
		{info: entry.Info{Attributes: entry.Attributes{Transform: "7"}}, kind: entry.NoteTransform,
			brief: "changed by a transform",
			text:  `not as the API server sent them: a transform (version "7") changed the objects`},
		{listOnly: true, kind: entry.NoteListOnly, brief: "cannot be watched",
			text: "the API server refuses to watch the objects: they are listed about once a minute, and changes between two " +
				"lists are not seen"},
		{info: entry.Info{LastContact: now.Add(-time.Hour)}, kind: entry.NoteAge,
			text: "the API server was last heard of at 2026-01-02T02:04:05Z; this is what it had then"},
	} {
		var want []entry.Note
		if tt.kind != "" {
			want = []entry.Note{{Kind: tt.kind, Text: tt.text, Brief: tt.brief}}
		}
		for _, at := range []time.Time{now, now.Add(time.Second)} {
			if tt.kind == "" && !tt.info.LastContact.IsZero() {
				at = now
			}
			if got := tt.info.Notes(at, tt.listOnly); !slices.Equal(got, want) {
				t.Errorf("%+v at %s:\n got %q\nwant %q", tt.info, at, got, want)
			}
		}
	}
	all := entry.Info{MustRelist: "x", LeftOutMore: true, Attributes: entry.Attributes{Transform: "1"},
		LastContact: now.Add(-time.Hour)}
	var kinds []entry.NoteKind
	for _, n := range all.Notes(now, true) {
		kinds = append(kinds, n.Kind)
	}
	if fmt.Sprint(kinds) != fmt.Sprint(entry.NoteKinds) {
		t.Errorf("the notes are of %q, want %q", kinds, entry.NoteKinds)
	}
}
