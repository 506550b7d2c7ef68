package reflector

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// progress is the resourceVersion up to which a stream of events has been delivered. It never decreases. The zero value
// is a stream that has no list yet.
type progress struct {
	RV string
	// comparable is false if the resourceVersion of the list, or of a later event, could not be compared. Then RV is
	// the resourceVersion of the list or of the last event. A watch of this run can resume from RV, even though its
	// order is unknown.
	comparable bool
}

// progressAt returns the progress of a stream that starts at rv: after a list or a seed, or from a stored state.
func progressAt(rv string) progress { return progress{RV: rv, comparable: entry.ComparableRV(rv)} }

// Comparable reports whether the stream's resourceVersion can be compared with others.
func (c *progress) Comparable() bool { return c.comparable }

// below reports whether resourceVersion a is lower than b. Both arguments must be comparable.
func below(a, b string) bool { return entry.NewerRV(b, a) }

// maxRV returns the higher resourceVersion, or b if a is not comparable.
func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

// Reached reports whether the stream has been delivered up to rv.
func (c *progress) Reached(rv string) bool { return c.comparable && !below(c.RV, rv) }

// Advance sets RV to the resourceVersion of an event or bookmark, if that is higher or cannot be compared. It returns
// the new RV for the Sink, or "" if the Sink must not store it.
//
// After one event whose resourceVersion cannot be compared, none counts as comparable. Otherwise each reconnect would
// replay everything since the list. A watch from "" or "0" begins with the objects in no order, so their
// resourceVersions do not resume a watch. "0" stands for any state, so it counts as no resourceVersion: kine sends
// bookmarks with it (k3s-io/kine#568).
func (c *progress) Advance(rv string) string {
	if rv == "0" {
		rv = ""
	}
	if rv != "" && !entry.ComparableRV(rv) && c.RV != "0" {
		c.comparable = false
	}
	switch {
	case c.comparable && entry.ComparableRV(rv):
		c.RV = maxRV(c.RV, rv)
		return c.RV
	case !c.comparable && rv != "" && c.RV != "" && c.RV != "0":
		c.RV = rv
	}
	return ""
}

// newestSize is the maximum length of newest. maxLookups is how many of its objects are compared with the server's at a
// connect. newest holds more objects than that, so that enough remain after deletions.
const (
	newestSize = 16
	maxLookups = 5
)

// newest is a short list of the delivered objects with the highest resourceVersions, highest first. At a connect the
// reflector compares them with the server's, to detect a server that was restored from a backup.
type newest struct {
	Refs []entry.ObjectRef
}

// Put adds a new state of an object in place of an older state. It adds nothing if ref has no UID, if its
// resourceVersion cannot be compared, or if the list is full of newer objects.
func (n *newest) Put(ref entry.ObjectRef) {
	n.Remove(ref.Key)
	if ref.UID == "" || !entry.ComparableRV(ref.ResourceVersion) {
		return
	}
	if len(n.Refs) == newestSize && below(ref.ResourceVersion, n.Refs[newestSize-1].ResourceVersion) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.Refs, ref, func(a, b entry.ObjectRef) int {
		if below(b.ResourceVersion, a.ResourceVersion) {
			return -1
		}
		return 1
	})
	n.Refs = slices.Insert(n.Refs, i, ref)
	if len(n.Refs) > newestSize {
		n.Refs = n.Refs[:newestSize]
	}
}

// Find returns the reference to the object with that key, and whether the list n contains it.
func (n *newest) Find(key string) (entry.ObjectRef, bool) {
	i := slices.IndexFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
	if i < 0 {
		return entry.ObjectRef{}, false
	}
	return n.Refs[i], true
}

// Remove removes the object with that key from the list.
func (n *newest) Remove(key string) {
	n.Refs = slices.DeleteFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
}

// touchedMax bounds the number of event keys that listNewest remembers.
const touchedMax = 10_000

// listNewest finds the newest objects of a list that has a watch beside it. An event for a key is newer than the list's
// item of that key, whichever arrives first. In particular, an item that was deleted by an event must not reappear.
type listNewest struct {
	items  newest
	events newest
	// touched contains the keys of all events so far; nil once there were more than touchedMax.
	touched map[string]struct{}
}

// newListNewest returns a listNewest for a new list.
func newListNewest() *listNewest {
	return &listNewest{touched: map[string]struct{}{}}
}

// Item adds an item of one of the list's pages.
func (l *listNewest) Item(ref entry.ObjectRef) {
	if _, ok := l.touched[ref.Key]; !ok {
		l.items.Put(ref)
	}
}

// Put adds the object of an ADDED or MODIFIED event during the list.
func (l *listNewest) Put(ref entry.ObjectRef) {
	l.touch(ref.Key)
	l.events.Put(ref)
}

// Remove removes the object of a DELETED event during the list.
func (l *listNewest) Remove(key string) {
	l.touch(key)
	l.events.Remove(key)
}

func (l *listNewest) touch(key string) {
	l.items.Remove(key)
	if l.touched == nil {
		return
	}
	l.touched[key] = struct{}{}
	if len(l.touched) > touchedMax {
		l.touched = nil
	}
}

// Result returns the newest objects of the items and events. After events for more than touchedMax keys, it returns the
// newest objects of the events only.
func (l *listNewest) Result() newest {
	n := l.events
	if l.touched == nil {
		return n
	}
	for _, ref := range l.items.Refs {
		n.Put(ref)
	}
	return n
}

// finding is the result of comparing one stored object with the server's state.
type finding string

const (
	// agrees means that the server has the object in the stored state, or in one that cannot be compared.
	agrees finding = "agrees"
	// changed means that the server has changed or deleted the object since the stored state. The watch must still
	// deliver an event for that change.
	changed finding = "changed"
	// contradicts means that the server has another object, or another state of it, at a resourceVersion that was
	// already delivered. No events lead from the stored state to the server's.
	contradicts finding = "contradicts"
)

// checkHeld compares one stored object (held) with the server's (got). at is the newest delivered resourceVersion.
// found is false if the server does not have the object.
func checkHeld(held entry.ObjectRef, at string, got entry.ObjectRef, found bool) finding {
	switch {
	case !found:
		return changed
	case got.UID == held.UID && got.ResourceVersion == held.ResourceVersion:
		return agrees
	case !entry.ComparableRV(got.ResourceVersion):
		return agrees // resourceVersions that cannot be compared prove nothing
	case below(at, got.ResourceVersion):
		return changed
	}
	return contradicts
}
