package history_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

func state(key string, rv uint64) *entry.Entry {
	return &entry.Entry{Key: key, UID: key, ResourceVersion: fmt.Sprint(rv), Payload: make([]byte, 1000)}
}

// created, updated and deleted return events. rv is the event's resourceVersion, before that of the previous state.
func created(key string, rv uint64) *history.Event {
	return &history.Event{Key: key, RV: rv, New: state(key, rv)}
}

func updated(key string, before, rv uint64) *history.Event {
	return &history.Event{Key: key, RV: rv, Old: state(key, before), New: state(key, rv)}
}

func deleted(key string, before, rv uint64) *history.Event {
	return &history.Event{Key: key, RV: rv, Old: state(key, before), Deleted: true}
}

// recalled returns an event that an earlier process has stored, without the old object.
func recalled(key string, rv uint64) *history.Event {
	return &history.Event{Key: key, RV: rv, New: state(key, rv), Recalled: true}
}

// windowOf returns a Window of at most bound bytes, at first at resourceVersion 10, to which it adds a batch per event.
func windowOf(bound int, events ...*history.Event) *history.Window {
	w := history.New(bound)
	w.Restart("10", true)
	for _, e := range events {
		w.Put([]*history.Event{e}, fmt.Sprint(e.RV))
	}
	return w
}

// versions returns the resourceVersions of all events after a Position.
func versions(t *testing.T, w *history.Window, at history.Position) (all []uint64) {
	t.Helper()
	for {
		events, next, _, err := w.After(at, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		for _, e := range events {
			all = append(all, e.RV)
		}
		at = next
	}
}

func wantVersions(t *testing.T, w *history.Window, at history.Position, want ...uint64) {
	t.Helper()
	if got := versions(t, w, at); !slices.Equal(got, want) {
		t.Errorf("the events after the position are %v, want %v", got, want)
	}
}

func wantFind(t *testing.T, w *history.Window, rv string, whole bool, want error) history.Position {
	t.Helper()
	at, err := w.Find(rv, whole)
	if !errors.Is(err, want) {
		t.Errorf("Find(%s, %t): %v, want %v", rv, whole, err, want)
	}
	return at
}

func wantEnded(t *testing.T, w *history.Window, at history.Position) {
	t.Helper()
	if events, _, _, err := w.After(at, 100); !errors.Is(err, history.ErrExpired) {
		t.Errorf("After gives %d events and %v, want ErrExpired", len(events), err)
	}
	now, _ := w.Now()
	if _, err := w.Undo(at, now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo: %v, want ErrExpired", err)
	}
	if _, err := w.Grown(at, now, "", func(entry.Entry) int { return 1 }); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Grown: %v, want ErrExpired", err)
	}
}

// TestTrimmed checks that a history window at its size limit has no silent gap: a position or resourceVersion after
// which an event was dropped gets ErrExpired, and all others get every later event (issue 37).
func TestTrimmed(t *testing.T) {
	w := windowOf(3*1300, created("a", 11))
	type moment struct {
		at history.Position
		rv uint64
	}
	start, _ := w.Find("10", true)
	moments := []moment{{start, 10}}
	last := uint64(11)
	for rv := uint64(12); rv < 40; rv++ {
		at, _ := w.Now()
		moments = append(moments, moment{at, last})
		w.Put([]*history.Event{created(fmt.Sprint("k", rv), 2*rv)}, fmt.Sprint(2*rv))
		last = 2 * rv
		oldest := w.Oldest()
		kept := 0
		for _, m := range moments {
			want := []uint64{}
			for n := max(m.rv+1, 11); n <= last; n++ {
				if n == 11 || n >= 24 && n%2 == 0 {
					want = append(want, n)
				}
			}
			if entry.NewerRV(oldest, fmt.Sprint(m.rv)) {
				wantFind(t, w, fmt.Sprint(m.rv), true, history.ErrExpired)
				wantEnded(t, w, m.at)
				continue
			}
			kept++
			wantVersions(t, w, m.at, want...)
			wantVersions(t, w, wantFind(t, w, fmt.Sprint(m.rv), true, nil), want...)
		}
		if kept > 3 || last > 30 && kept < 3 {
			t.Fatalf("at %d the window leads on from %d moments, and its bound is three events", last, kept)
		}
	}
	if oldest := w.Oldest(); oldest != "72" {
		t.Errorf("the oldest resourceVersion is %s, want 72", oldest)
	}
}

// TestLargeEvent checks that a history window keeps its newest event even if that event alone exceeds the size limit.
func TestLargeEvent(t *testing.T) {
	w := windowOf(10, created("a", 11), updated("a", 11, 12))
	wantVersions(t, w, wantFind(t, w, "11", true, nil), 12)
	wantFind(t, w, "10", true, history.ErrExpired)
}

// TestSize checks that both the old and the new object of an event count towards the size limit of a history window.
func TestSize(t *testing.T) {
	bare := (&history.Event{Key: "a", RV: 1}).Size()
	if got := updated("a", 1, 2).Size() - bare; got != 2000 {
		t.Errorf("two objects of 1,000 bytes count as %d", got)
	}
	w := windowOf(5*1300, created("a", 11), updated("a", 11, 12), updated("a", 12, 13), updated("a", 13, 14))
	if oldest := w.Oldest(); oldest != "12" {
		t.Errorf("the oldest resourceVersion is %s, want 12: two updates of 2,256 bytes fit", oldest)
	}
}

// TestBrokenBatches checks that a batch that does not continue the earlier events ends all earlier positions.
func TestBrokenBatches(t *testing.T) {
	replaced := updated("a", 11, 12)
	replaced.New.UID = "another"
	deletedLast := deleted("a", 11, 12)
	deletedLast.New = &entry.Entry{Key: "a", UID: "another"}
	for name, test := range map[string]struct {
		events []*history.Event
		rv     string
		breaks bool
		find   error // find is the error of Find(rv, true) after the batch
	}{
		"continues":                       {[]*history.Event{updated("a", 11, 12), created("b", 13)}, "13", false, nil},
		"advances without events":         {nil, "12", false, nil},
		"a delete with another last UID":  {[]*history.Event{deletedLast}, "12", false, nil},
		"older resourceVersion":           {nil, "9", true, nil},
		"no resourceVersion":              {nil, "", true, history.ErrExpired},
		"an opaque resourceVersion":       {nil, "x", true, history.ErrExpired},
		"an event at a known version":     {[]*history.Event{created("b", 11)}, "11", true, history.ErrExpired},
		"an older event":                  {[]*history.Event{created("b", 5)}, "12", true, nil},
		"an event above the batch":        {[]*history.Event{created("b", 13)}, "12", true, nil},
		"events that do not ascend":       {[]*history.Event{created("b", 13), created("c", 12)}, "13", true, nil},
		"two events at one version":       {[]*history.Event{created("b", 12), created("c", 12)}, "12", true, nil},
		"another object under one key":    {[]*history.Event{replaced}, "12", true, nil},
		"the same state, and late object": {[]*history.Event{created("b", 5)}, "11", true, history.ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			w := windowOf(1<<20, created("a", 11))
			before, _ := w.Now()
			woken := w.Changed()
			w.Put(test.events, test.rv)
			select {
			case <-woken:
			default:
				t.Error("readers that wait are not woken")
			}
			if test.rv != "" && test.rv != "x" {
				wantFind(t, w, test.rv, true, test.find)
			}
			if !test.breaks {
				wantFind(t, w, "10", true, nil)
				if got := versions(t, w, before); len(got) != len(test.events) {
					t.Errorf("the events %v, want %d", got, len(test.events))
				}
				return
			}
			wantEnded(t, w, before)
			wantFind(t, w, "10", true, errOf(test.rv != "9", history.ErrExpired, history.ErrAhead))
		})
	}
}

func errOf(first bool, a, b error) error {
	if first {
		return a
	}
	return b
}

// TestNothingNew checks that a batch without events at the same resourceVersion wakes no reader and ends no position.
func TestNothingNew(t *testing.T) {
	w := windowOf(1<<20, created("a", 11))
	at, _ := w.Now()
	woken := w.Changed()
	w.Put(nil, "11")
	select {
	case <-woken:
		t.Error("readers are woken")
	default:
	}
	wantVersions(t, w, at)
}

// TestFirstBatch checks that no position from before the first batch is valid if the collection's state was unknown.
func TestFirstBatch(t *testing.T) {
	w := history.New(1 << 20)
	before, rv := w.Now()
	if rv != "" {
		t.Errorf("the resourceVersion is %q before anything is known", rv)
	}
	wantFind(t, w, "0", false, history.ErrExpired)
	w.Put([]*history.Event{created("a", 5)}, "5")
	wantEnded(t, w, before)
	wantFind(t, w, "4", false, history.ErrExpired)
	wantFind(t, w, "5", false, nil)
}

// TestRestart checks from which resourceVersions a watch can read the changes that follow a list.
func TestRestart(t *testing.T) {
	for name, test := range map[string]struct {
		disturb, changed bool
		rv, oldest       string
	}{
		"at a later version":               {false, true, "12", "12"},
		"nothing changed":                  {false, false, "11", "11"},
		"changed under the same version":   {false, true, "11", "12"},
		"shown in part, the same version":  {true, false, "11", "12"},
		"shown in part, and a later one":   {true, false, "12", "12"},
		"at an older version, as a rewind": {false, true, "7", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := windowOf(1<<20, created("a", 11))
			before, _ := w.Now()
			first, _ := w.Timeline()
			if test.disturb {
				w.Disturb()
			}
			w.Restart(test.rv, test.changed)
			if n, oldest := w.Timeline(); n <= first || oldest != test.oldest {
				t.Errorf("timeline %d after %d, from %s; want a later one from %s", n, first, oldest, test.oldest)
			}
			if !w.Settled() {
				t.Error("the collection is not one state after the list")
			}
			wantEnded(t, w, before)
			if test.oldest > test.rv {
				wantFind(t, w, test.rv, false, history.ErrExpired)
				w.Restart(test.rv, false)
				if _, oldest := w.Timeline(); oldest != test.oldest {
					t.Errorf("a list without a difference takes the oldest version back to %s", oldest)
				}
			}
		})
	}
}

// TestDisturbed checks that a change of the collection without events ends paged lists that began before, not watches.
func TestDisturbed(t *testing.T) {
	w := windowOf(1<<20, created("a", 11), created("b", 12))
	before, _ := w.Now()
	w.Disturb()
	if w.Settled() {
		t.Error("a mixture of two states passes for one")
	}
	now, _ := w.Now()
	if _, err := w.Undo(before, now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo over the disturbance: %v", err)
	}
	if _, err := w.Undo(wantFind(t, w, "12", true, nil), now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo from a resourceVersion from before the disturbance: %v", err)
	}
	w.Put([]*history.Event{updated("a", 11, 13)}, "13")
	w.Put([]*history.Event{updated("a", 13, 14)}, "14")
	wantVersions(t, w, before, 13, 14)
	now, _ = w.Now()
	if _, err := w.Undo(wantFind(t, w, "12", true, nil), now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo from a resourceVersion from before the disturbance: %v", err)
	}
	olds, err := w.Undo(wantFind(t, w, "13", true, nil), now)
	if err != nil || len(olds) != 1 || olds["a"].ResourceVersion != "13" {
		t.Errorf("Undo after the disturbance: %v, %v", olds, err)
	}
}

func TestUndoAndGrown(t *testing.T) {
	w := windowOf(1<<20, created("n/a", 11), created("n/b", 12), updated("n/a", 11, 13), deleted("n/b", 12, 14),
		created("m/c", 15), updated("n/a", 13, 16))
	from, now := wantFind(t, w, "12", true, nil), wantFind(t, w, "16", true, nil)
	olds, err := w.Undo(from, now)
	if err != nil || len(olds) != 3 || olds["n/a"].ResourceVersion != "11" || olds["n/b"].ResourceVersion != "12" ||
		olds["m/c"] != nil {
		t.Errorf("Undo: %v, %v", olds, err)
	}
	one := func(entry.Entry) int { return 1 }
	for prefix, want := range map[string]int{"": 0, "n/": -1, "m/": 1, "x/": 0} {
		if n, err := w.Grown(from, now, prefix, one); n != want || err != nil {
			t.Errorf("Grown under %q: %d, %v; want %d", prefix, n, err, want)
		}
	}
	if _, err := w.Undo(now, from); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo backwards: %v", err)
	}
	if _, err := w.Undo(from, history.Position{}); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo up to no position: %v", err)
	}
	w.Restart("20", true)
	start, _ := w.Now()
	for rv := uint64(21); rv < 30; rv++ {
		w.Put([]*history.Event{created(fmt.Sprint("k", rv), rv)}, fmt.Sprint(rv))
	}
	if _, err := w.Undo(start, now); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo up to a position of another timeline: %v", err)
	}
	w = windowOf(1<<20, created("a", 11))
	from, _ = w.Now()
	other := windowOf(1<<20, created("a", 11), created("b", 12), created("c", 13), created("d", 14), created("e", 15),
		created("f", 16), created("g", 17))
	beyond, _ := other.Now()
	if _, err := w.Undo(from, beyond); !errors.Is(err, history.ErrExpired) {
		t.Errorf("Undo up to a position that does not exist: %v", err)
	}
}

func TestFindRefuses(t *testing.T) {
	w := windowOf(1<<20, created("a", 11), created("b", 15))
	for _, rv := range []string{"", "x", "-1", "11x"} {
		if _, err := w.Find(rv, false); err == nil || errors.Is(err, history.ErrExpired) || errors.Is(err, history.ErrAhead) {
			t.Errorf("Find(%q): %v", rv, err)
		}
	}
	wantVersions(t, w, wantFind(t, w, "13", true, nil), 15)
	wantFind(t, w, "16", true, history.ErrAhead)
	events, next, rv, err := w.After(wantFind(t, w, "10", true, nil), 1)
	if err != nil || len(events) != 1 || rv != "11" {
		t.Errorf("After one event: %d, at %s, %v", len(events), rv, err)
	}
	w.Put(nil, "18")
	if _, _, rv, _ = w.After(next, 1); rv != "18" {
		t.Errorf("After the last event the resourceVersion is %s, want that of the collection", rv)
	}
}

// TestEnd checks that the history window of a closed collection wakes its readers and returns no events (issue 37).
func TestEnd(t *testing.T) {
	w := windowOf(1<<20, created("a", 11))
	before, _ := w.Now()
	woken := w.Changed()
	w.End()
	select {
	case <-woken:
	default:
		t.Error("readers that wait are not woken")
	}
	if w.Settled() {
		t.Error("a closed collection passes for one state")
	}
	wantEnded(t, w, before)
	after, _ := w.Now()
	wantEnded(t, w, after)
	for _, rv := range []string{"10", "11", "12"} {
		wantFind(t, w, rv, false, history.ErrExpired)
	}
}
