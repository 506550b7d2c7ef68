package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
