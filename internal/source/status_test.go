package source

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/entry"
)

// TestNotesOfACollection checks that a collection's Notes list its known defects, except its age. Readers compute the
// age from LastContact.
func TestNotesOfACollection(t *testing.T) {
	c := NewCollection(entry.Info{MustRelist: "why", LeftOut: []entry.LeftOut{{}}, LastContact: time.Unix(1, 0),
		Attributes: entry.Attributes{Transform: "7"}})
	var got []entry.NoteKind
	for _, n := range c.Notes {
		got = append(got, n.Kind)
	}
	if d := cmp.Diff([]entry.NoteKind{entry.NoteMustRelist, entry.NoteLeftOut, entry.NoteTransform}, got); d != "" {
		t.Error(d)
	}
}

func TestSort(t *testing.T) {
	want := []Collection{
		{Resource: "events", ID: "z"},
		{Resource: "events", Group: "events.k8s.io", ID: "a"},
		{Resource: "pods", ID: "y"},
		{Resource: "pods", LabelSelector: "app=db", ID: "x"},
		{Resource: "pods", LabelSelector: "app=web", ID: "b"},
		{Resource: "pods", Namespace: "a", ID: "w"},
		{Resource: "pods", Namespace: "b", ID: "c"},
		{Resource: "pods", Namespace: "b", ID: "d"},
	}
	got := []Collection{want[4], want[7], want[1], want[0], want[6], want[2], want[5], want[3]}
	Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRelistCount(t *testing.T) {
	if n := (Live{Relists: map[string]int{"Expired": 2, "AheadOfServer": 3}}).RelistCount(); n != 5 {
		t.Errorf("got %d", n)
	}
}
