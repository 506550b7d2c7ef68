package history_test

import (
	"errors"
	"testing"

	"github.com/larder-dev/larder/store/history"
)

// TestRecalled checks that a watch can start at a resourceVersion from before a restart, with the stored events of an
// earlier process, unless it needs their old objects, which are not stored.
func TestRecalled(t *testing.T) {
	w := history.New(1 << 20)
	if !w.Recall([]*history.Event{recalled("a", 11), recalled("b", 13)}, 10, "14") {
		t.Fatal("the changes are passed over")
	}
	wantVersions(t, w, wantFind(t, w, "10", false, nil), 11, 13)
	wantVersions(t, w, wantFind(t, w, "11", false, nil), 13)
	wantFind(t, w, "9", false, history.ErrExpired)
	wantFind(t, w, "15", false, history.ErrAhead)
	wantFind(t, w, "12", true, history.ErrExpired)
	known := wantFind(t, w, "13", true, nil)
	w.Put([]*history.Event{created("c", 15)}, "15")
	wantVersions(t, w, known, 15)
	now, _ := w.Now()
	if _, err := w.Undo(wantFind(t, w, "11", false, nil), now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo of recalled events: %v", err)
	}
	if olds, err := w.Undo(known, now); err != nil || len(olds) != 1 {
		t.Errorf("Undo of later events: %v, %v", olds, err)
	}
}

func TestRecallPassesOver(t *testing.T) {
	for name, test := range map[string]struct {
		changes []*history.Event
		floor   uint64
		whole   bool
		oldest  string
	}{
		"nothing changed":           {nil, 10, true, "10"},
		"the first is at the floor": {[]*history.Event{recalled("a", 10), recalled("b", 11)}, 10, true, "10"},
		"no floor":                  {[]*history.Event{recalled("a", 11)}, 0, false, "14"},
		"below the floor":           {[]*history.Event{recalled("a", 9)}, 10, false, "15"},
		"not ascending":             {[]*history.Event{recalled("a", 12), recalled("b", 11)}, 10, false, "15"},
		"above what they lead to":   {[]*history.Event{recalled("a", 15)}, 10, false, "15"},
	} {
		t.Run(name, func(t *testing.T) {
			w := history.New(1 << 20)
			if whole := w.Recall(test.changes, test.floor, "14"); whole != test.whole || w.Oldest() != test.oldest {
				t.Errorf("whole %t, the oldest is %s; want %t, %s", whole, w.Oldest(), test.whole, test.oldest)
			}
			if wantFind(t, w, "14", false, errOf(test.oldest > "14", history.ErrExpired, nil)); !test.whole {
				wantFind(t, w, "13", false, history.ErrExpired)
			}
		})
	}
	w := history.New(2 * 1300)
	if !w.Recall([]*history.Event{recalled("a", 11), recalled("b", 12), recalled("c", 13)}, 10, "13") {
		t.Fatal("the changes are passed over")
	}
	wantFind(t, w, "10", false, history.ErrExpired)
	wantVersions(t, w, wantFind(t, w, "11", false, nil), 12, 13)
	wantFind(t, w, "12", true, history.ErrExpired)
	wantFind(t, w, "13", true, nil)
}

// TestExisted checks that a watch reports a stored object as ADDED exactly if the client cannot know it from before.
func TestExisted(t *testing.T) {
	since := recalled("a", 20)
	since.Since = 12
	for _, test := range []struct {
		e    *history.Event
		from uint64
		want bool
	}{
		{created("a", 20), 19, false}, {updated("a", 5, 20), 1, true}, {since, 11, false}, {since, 12, true},
		{recalled("a", 20), 1, true},
	} {
		if got := test.e.Existed(test.from); got != test.want {
			t.Errorf("%+v existed at %d: %t", test.e, test.from, got)
		}
	}
}
