package history

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/larder-dev/larder/entry"
)

// Errors of readers.
var (
	// ErrExpired says that the window lacks events after a Position or a resourceVersion. Read the collection anew.
	ErrExpired = errors.New("the changes since then are not kept any more")
	// ErrAhead says that the resourceVersion is newer than the collection.
	ErrAhead = errors.New("the collection has not come that far")
)

// Event is one change of one object.
type Event struct {
	Key string
	// RV is the resourceVersion of the change.
	RV uint64
	// Old is the object before the change; nil if there was none.
	Old *entry.Entry
	// New is the object after the change. For a deletion it is the last state, with the resourceVersion of the deletion,
	// or nil if the server has not sent that state.
	New *entry.Entry
	// Deleted is true if the change deleted the object.
	Deleted bool
	// Recalled is true if an earlier process applied the change. The event then has no Old, and may combine several
	// changes.
	Recalled bool
	// Since is the resourceVersion from which on the key of a Recalled event had an object; 0 if that is before the
	// Window.
	Since uint64
}

// Existed reports whether the object existed before the event, for a client that knows the state at resourceVersion
// from.
func (e *Event) Existed(from uint64) bool {
	if !e.Recalled {
		return e.Old != nil
	}
	return e.Since <= from
}

func (e *Event) replaces() bool { return e.Old != nil && e.After() != nil && e.Old.UID != e.New.UID }

// After returns the object after the change; nil if there is none.
func (e *Event) After() *entry.Entry {
	if e.Deleted {
		return nil
	}
	return e.New
}

// overhead is the approximate memory of an event in bytes, without key and payloads.
const overhead = 256

// Size returns the approximate memory of the event, in bytes.
func (e *Event) Size() int {
	n := overhead + len(e.Key)
	if e.Old != nil {
		n += len(e.Old.Payload)
	}
	if e.New != nil {
		n += len(e.New.Payload)
	}
	return n
}

// Position is a point between two events of a Window. The zero Position belongs to no Window.
type Position struct {
	timeline  uint64 // timeline is 0 only in the zero Position
	next      uint64 // next is the number of the event that follows
	disturbed uint64 // disturbed is Window.disturbed at the time of the call that returned the Position
}

// Window keeps the latest changes of a collection. Make it with New.
type Window struct {
	bound int

	mu       sync.RWMutex  // mu guards the fields below
	timeline uint64        // timeline is the number of the current timeline
	events   []*Event      // events are the kept events, oldest first
	first    uint64        // first is the number of events[0]
	bytes    int           // bytes is the size of events
	floor    uint64        // floor is the resourceVersion of the state before events[0]
	rv       uint64        // rv is the resourceVersion of the newest state; 0 if it is not known
	changed  chan struct{} // changed is closed at the next change

	known uint64 // known is the number of the first event that is not Recalled

	disturbed uint64 // disturbed counts the calls of Disturb
	unsettled bool   // unsettled is true from Disturb until a new timeline begins
	ended     bool   // ended is true after End
	calm      uint64 // calm is the lowest Position.next that is certainly after the last Disturb
}

// New returns a Window that holds at most bound bytes of events, but always the newest event.
func New(bound int) *Window {
	return &Window{bound: bound, timeline: 1, changed: make(chan struct{})}
}

// Put adds the events of a batch, in order, and the resourceVersion that covers them, before readers can see the batch.
// It begins a new timeline if the batch does not continue the current one: if the resourceVersions do not ascend, as
// for an object that was first refused, or if an event replaces an object by an object with another UID.
func (w *Window) Put(events []*Event, rv string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	covers, _ := parse(rv)
	if w.rv == 0 || covers < w.rv || !ascend(events, w.rv, covers) || slices.ContainsFunc(events, (*Event).replaces) {
		w.restartLocked(covers, len(events) > 0)
		return
	}
	if len(events) == 0 && covers == w.rv {
		return
	}
	for _, e := range events {
		w.events, w.bytes = append(w.events, e), w.bytes+e.Size()
	}
	w.rv = covers
	w.trimLocked()
	w.wakeLocked()
}

// ascend reports whether the resourceVersions of the events ascend, from above after to at most upTo.
func ascend(events []*Event, after, upTo uint64) bool {
	for _, e := range events {
		if e.RV <= after || e.RV > upTo {
			return false
		}
		after = e.RV
	}
	return true
}

func (w *Window) trimLocked() {
	drop := 0
	for w.bytes > w.bound && drop < len(w.events)-1 {
		w.bytes -= w.events[drop].Size()
		w.floor = w.events[drop].RV
		drop++
	}
	w.first += uint64(drop)
	w.events = slices.Delete(w.events, 0, drop)
}

// Disturb notes that the collection changes without events: a list is visible before its end, or damage has lost
// objects. Then Undo fails for older Positions, and Settled is false until Restart at the end of a list.
func (w *Window) Disturb() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturbed++
	w.unsettled = true
	w.calm = w.nextLocked() + 1
}

// Settled reports whether the collection is one state of the API server, not a mixture of two. It is false after End.
func (w *Window) Settled() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return !w.unsettled && !w.ended
}

// End ends the window when its collection is closed: it drops the events and wakes all waiters. From then on each
// Position and each resourceVersion is ErrExpired.
func (w *Window) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restartLocked(w.rv, true)
	w.ended = true
}

// Restart begins a new timeline at the resourceVersion of a list. changed says whether objects have changed.
func (w *Window) Restart(rv string, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	covers, _ := parse(rv)
	w.restartLocked(covers, changed)
}

// Timeline returns the number of the timeline, and the oldest resourceVersion from which it can be followed. That is
// above the newest one if the timeline began with changes under a resourceVersion that readers knew already.
func (w *Window) Timeline() (n uint64, oldest string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.timeline, formatRV(w.floor)
}

// Recall begins the window with the stored changes that lead from the resourceVersion floor to rv, in order. If floor
// is 0 or the resourceVersions do not ascend, Recall does not use the changes and returns false.
func (w *Window) Recall(changes []*Event, floor uint64, rv string) (whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	covers, _ := parse(rv)
	w.restartLocked(covers, false)
	switch {
	case floor == 0:
		return false
	case !ascend(changes, floor-1, covers): // the first change may be at the floor
		w.floor++ // a client that knows rv may lack changes up to rv
		return false
	}
	for _, e := range changes {
		w.bytes += e.Size()
	}
	w.events, w.floor, w.known = changes, floor, uint64(len(changes))
	w.trimLocked()
	return true
}

func (w *Window) restartLocked(rv uint64, changed bool) {
	floor := rv
	if rv == w.rv { // readers may know another state under rv, so the floor is the next resourceVersion
		if changed || w.unsettled {
			floor++
		}
		floor = max(floor, w.floor)
	}
	w.timeline++
	w.events, w.first, w.bytes, w.floor, w.rv, w.calm, w.known, w.unsettled = nil, 0, 0, floor, rv, 0, 0, false
	w.wakeLocked()
}

func (w *Window) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Window) nextLocked() uint64 { return w.first + uint64(len(w.events)) }

// Changed returns a channel that is closed when events are added, the resourceVersion advances, or a timeline begins.
func (w *Window) Changed() <-chan struct{} {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.changed
}

// Now returns the Position after the newest event, and the collection's resourceVersion; "" if it is not known.
func (w *Window) Now() (Position, string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return Position{w.timeline, w.nextLocked(), w.disturbed}, formatRV(w.rv)
}

// Oldest returns the oldest resourceVersion after which all events are kept.
func (w *Window) Oldest() string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return formatRV(w.floor)
}

// Find returns the Position after the events up to the resourceVersion rv. It fails with ErrExpired or ErrAhead, or if
// rv is no resourceVersion. whole says that the caller needs Event.Old of all later events, which Recalled events lack.
func (w *Window) Find(rv string, whole bool) (Position, error) {
	at, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("resourceVersion %q: %w", rv, err)
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch {
	case w.ended || w.rv == 0 || at < w.floor:
		return Position{}, ErrExpired
	case at > w.rv:
		return Position{}, ErrAhead
	}
	n, _ := slices.BinarySearchFunc(w.events, at, func(e *Event, at uint64) int {
		if e.RV <= at {
			return -1
		}
		return 1
	})
	found := Position{w.timeline, w.first + uint64(n), w.disturbed}
	if whole && found.next < w.known {
		return Position{}, ErrExpired
	}
	if found.next < w.calm {
		found.disturbed-- // the state may be older than the last Disturb
	}
	return found, nil
}

// After returns at most limit events after a Position, the next Position, and the resourceVersion of the state there.
// That is the collection's if no more events follow, and otherwise the last returned event's.
func (w *Window) After(at Position, limit int) (events []*Event, next Position, rv string, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.ended || at.timeline != w.timeline || at.next < w.first {
		return nil, at, "", ErrExpired
	}
	rest := w.events[at.next-w.first:]
	events = slices.Clone(rest[:min(limit, len(rest))])
	at.next += uint64(len(events))
	if len(events) == len(rest) {
		return events, at, formatRV(w.rv), nil
	}
	return events, at, formatRV(events[len(events)-1].RV), nil
}

// Undo returns the objects that have changed between two Positions, by key and as they were at from; nil for an object
// that did not exist. A reader of the state at to replaces its objects by them.
func (w *Window) Undo(from, to Position) (map[string]*entry.Entry, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	between, err := w.betweenLocked(from, to)
	if err != nil {
		return nil, err
	}
	olds := map[string]*entry.Entry{}
	for _, e := range between {
		if _, earlier := olds[e.Key]; !earlier {
			olds[e.Key] = e.Old
		}
	}
	return olds, nil
}

// Grown returns the growth, by weigh, of the objects under keys with a prefix between two Positions.
func (w *Window) Grown(from, to Position, prefix string, weigh func(entry.Entry) int) (n int, err error) {
	w.mu.RLock()
	between, err := w.betweenLocked(from, to)
	between = slices.Clone(between)
	w.mu.RUnlock() // weigh may take long
	for _, e := range between {
		if !strings.HasPrefix(e.Key, prefix) {
			continue
		}
		if e.Old != nil {
			n -= weigh(*e.Old)
		}
		if is := e.After(); is != nil {
			n += weigh(*is)
		}
	}
	return n, err
}

// betweenLocked returns the events between two Positions. It fails if one of them is Recalled and has no old object.
func (w *Window) betweenLocked(from, to Position) ([]*Event, error) {
	if w.ended || from.timeline != w.timeline || to.timeline != w.timeline || from.disturbed != to.disturbed ||
		from.next < max(w.first, w.known) || to.next > w.nextLocked() || from.next > to.next {
		return nil, ErrExpired
	}
	return w.events[from.next-w.first : to.next-w.first], nil
}

func parse(rv string) (uint64, bool) {
	n, err := strconv.ParseUint(rv, 10, 64)
	return n, err == nil && n > 0
}

func formatRV(rv uint64) string {
	if rv == 0 {
		return ""
	}
	return strconv.FormatUint(rv, 10)
}
