package entry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
)

// TestNotes checks which known defects a collection has, and that the texts do not change with the time.
func TestNotes(t *testing.T) {
	now := time.Now()
	object := entry.LeftOut{ObjectRef: entry.ObjectRef{Key: "default/secret-name"}}
	for name, tt := range map[string]struct {
		info entry.Info
		want []entry.Note
	}{
		"none":              {entry.Info{Complete: true, LastContact: now}, nil},
		"never heard of":    {entry.Info{}, nil},
		"within the minute": {entry.Info{LastContact: now.Add(-entry.OldAfter)}, nil},
		"all": {
			entry.Info{MustRelist: "why", LeftOut: []entry.LeftOut{object, object}, LeftOutMore: true,
				Attributes:  entry.Attributes{Transform: "7"},
				LastContact: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))},
			[]entry.Note{
				{Kind: entry.NoteMustRelist, Text: "to be listed again (why): objects may be missing, or older than others"},
				{Kind: entry.NoteLeftOut, Text: "objects that could not be stored are missing, or older than the server's: " +
					"more than 2"},
				{Kind: entry.NoteTransform, Text: `not as the API server sent them: a transform (version "7") changed the objects`},
				{Kind: entry.NoteAge, Text: "the API server was last heard of at 2026-01-02T02:04:05Z; this is what it had then"},
			},
		},
		"one left out": {
			entry.Info{LeftOut: []entry.LeftOut{object}},
			[]entry.Note{{Kind: entry.NoteLeftOut,
				Text: "objects that could not be stored are missing, or older than the server's: 1"}},
		},
		"unnamed ones left out": {
			entry.Info{LeftOutMore: true},
			[]entry.Note{{Kind: entry.NoteLeftOut,
				Text: "objects that could not be stored are missing, or older than the server's: more than 0"}},
		},
	} {
		if got := tt.info.Notes(now); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := tt.info.Notes(now.Add(time.Hour)); len(tt.want) > 1 && !slices.Equal(got, tt.want) {
			t.Errorf("%s: an hour later %+v", name, got)
		}
	}
}
